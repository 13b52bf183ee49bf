// SPDX-License-Identifier: Apache-2.0
#include "lab/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/toml_file.h"
#include "lab/backends/backend.h"
#include "lab/workload/ddp_workload.h"

namespace tributary::lab {
namespace {

/// Returns "x.toml:3: ", or nothing for an unknown place.
std::string place_prefix(const std::string& where) { return where.empty() ? "" : where + ": "; }

bool is_text(KeyType type) { return type == KeyType::kText || type == KeyType::kEndpoint; }

/// Puts the place of the refused key before the message: that of its last setting, else `place`.
Error placed(const Refusal& refusal, std::span<const Setting> settings, const std::string& place) {
  const auto last = std::find_if(settings.rbegin(), settings.rend(), [&](const Setting& setting) {
    return setting.name == refusal.key;
  });
  return {place_prefix(last == settings.rend() ? place : last->where) + refusal.text};
}

/// A key whose value matters only with some values of another key, unless it is the default.
struct DependentKey {
  std::string_view name;  ///< "fabric.*" stands for all keys that begin with "fabric.".
  bool (*has_effect)(const Scenario& scenario);
  const char* needed;
};

bool uses(const Scenario& scenario, Straggling pattern) {
  return scenario.straggler.pattern.contains(pattern);
}
bool uses_any(const Scenario& scenario) { return !uses(scenario, Straggling::kNone); }
bool uses_switchml(const Scenario& scenario) {
  return backend_kind(scenario.backend).switchml != nullptr;
}
bool is_sharded(const Scenario& scenario) {
  return scenario.backend == Backend::kSharded || scenario.backend == Backend::kShardedLive;
}
/// Tells whether blocks complete without late workers, who can then fetch results that were kept,
/// or skip computation. SwitchML's workers cannot.
bool lets_workers_skip(const Scenario& scenario) {
  const BackendKind& backend = backend_kind(scenario.backend);
  return leaves_out_late(scenario, backend) && backend.switchml == nullptr;
}
bool has_timeouts(const Scenario& scenario) { return backend_kind(scenario.backend).mitigates; }
/// Tells whether timer threads look for stragglers and exclude silent ones.
bool has_timer_threads(const Scenario& scenario) {
  return has_timeouts(scenario) && !uses_switchml(scenario) &&
         scenario.backend != Backend::kOptireduce;
}
bool has_pfe(const Scenario& scenario) {
  return scenario.backend == Backend::kTrioMl || scenario.backend == Backend::kTrioMlWait ||
         scenario.backend == Backend::kSwitchmlOnTrio;
}
/// Tells whether each of the scenario's patterns can delay anybody.
bool can_straggle(const Scenario& scenario) {
  const StragglerSettings& straggler = scenario.straggler;
  for (const Straggling sleep :
       {Straggling::kSlowWorker, Straggling::kSlowWorkerEach, Straggling::kSlowWorkerFixed}) {
    if (uses(scenario, sleep) && straggler.probability == 0) return false;
  }
  const bool is_slower = straggler.factor > 1 || !uses(scenario, Straggling::kFailSlow);
  const bool varies = straggler.p99_over_p50 > 1 || !uses(scenario, Straggling::kHeavyTail);
  if (!is_slower || !varies) return false;
  if (!uses(scenario, Straggling::kFailSlow) && !uses(scenario, Straggling::kHeavyTail))
    return true;
  const Workload workload = workload_of(scenario);
  return workload.forward + workload.backward > Duration();
}
/// Tells whether one of the patterns concerns a single worker, and no list names other stragglers.
bool has_single_straggler(const Scenario& scenario) {
  if (!scenario.straggler.workers.empty() || !scenario.straggler.racks.empty()) return false;
  return uses(scenario, Straggling::kSlowWorkerFixed) || uses(scenario, Straggling::kFailSlow) ||
         uses(scenario, Straggling::kPause) || uses(scenario, Straggling::kAbsent) ||
         uses(scenario, Straggling::kBackgroundFlow);
}
bool has_leaves(const Scenario& scenario) {
  return scenario.topology != Topology::kStar && scenario.topology != Topology::kFile;
}
/// Tells whether the keys of links set the cables. A topology file sets its own.
bool sets_cables(const Scenario& scenario) { return scenario.topology != Topology::kFile; }
/// Tells whether the rate of the links matters. It is also the rate at which a switch that adds
/// returns results (JobConfig::reply_bits_per_s), whichever cables it has.
bool uses_link_rate(const Scenario& scenario) {
  return sets_cables(scenario) || backend_kind(scenario.backend).placement == Placement::kSwitch;
}
/// Tells whether the delay of the links matters. SwitchML's pool also follows from it.
bool uses_link_delay(const Scenario& scenario) {
  return sets_cables(scenario) || uses_switchml(scenario);
}
constexpr char kOtherThanFile[] = "any with a topology other than file, which sets each cable";
constexpr char kNoFileButSwitchml[] =
    "any with a topology other than file, which sets each cable, or with a SwitchML back end, "
    "whose pool follows from it";

const std::array kDependentKeys = std::to_array<DependentKey>({
    {"leaves", [](const Scenario& s) { return has_leaves(s) || !s.straggler.racks.empty(); },
     "2, or any with topology=chassis, two-level or leaf-spine"},
    {"spines", [](const Scenario& s) { return s.topology == Topology::kLeafSpine; },
     "any with topology=leaf-spine"},
    {"topology_file", [](const Scenario& s) { return s.topology == Topology::kFile; },
     "none, or the path of a file with topology=file"},
    {"window", [](const Scenario& s) { return !uses_switchml(s); },
     "4096, or any with a back end other than SwitchML, whose window is switchml.pool"},
    {"gradients", [](const Scenario& s) { return !uses_switchml(s); },
     "1024, or any with a back end other than SwitchML, which fixes the size of its packets"},
    {"model.bucket_bytes", [](const Scenario& s) { return s.model.kind == Model::kCustom; },
     "none, or any with model.name=custom"},
    {"link.rate_gbps", uses_link_rate,
     "100, or any with a topology other than file, which sets each cable, or with a switch that "
     "adds, whose results have this rate"},
    {"link.propagation_ns", uses_link_delay, kNoFileButSwitchml},
    {"link.jitter_us", uses_link_delay, kNoFileButSwitchml},
    {"link.queue_bytes", sets_cables, kOtherThanFile},
    {"link.ecn_bytes", sets_cables, kOtherThanFile},
    {"link.loss", sets_cables, kOtherThanFile},
    {"link.corrupt", sets_cables, kOtherThanFile},
    {"link.duplicate", sets_cables, kOtherThanFile},
    {"link.reorder", sets_cables, kOtherThanFile},
    {"link.slow_rate_gbps", [](const Scenario& s) { return !s.slow_links.workers.empty(); },
     "any with link.slow_workers"},
    {"link.loss_run", [](const Scenario& s) { return s.link.faults.loss > 0; },
     "1, or any with link.loss above 0"},
    {"link.reorder_max_us", [](const Scenario& s) { return s.link.faults.reorder > 0; },
     "any with link.reorder above 0"},
    {"fabric.*", has_leaves, "any with topology=chassis, two-level or leaf-spine"},
    {"fabric.slow_rate_gbps", [](const Scenario& s) { return !s.slow_uplinks.racks.empty(); },
     "any with fabric.slow_racks"},
    {"fabric.loss_run", [](const Scenario& s) { return s.fabric.faults.loss > 0; },
     "1, or any with fabric.loss above 0"},
    {"fabric.reorder_max_us", [](const Scenario& s) { return s.fabric.faults.reorder > 0; },
     "any with fabric.reorder above 0"},
    {"mitigation.timeout_ms", has_timeouts,
     "10, or any with backend=trio-ml, switchml-64-timeout, live, sharded-live or optireduce"},
    {"mitigation.timer_threads", has_timer_threads,
     "100, or any with backend=trio-ml, live or sharded-live"},
    {"mitigation.permanent_after_ms", has_timer_threads,
     "1000, or any with backend=trio-ml, live or sharded-live"},
    {"mitigation.history", lets_workers_skip,
     "64, or any with backend=trio-ml, live, sharded-live or optireduce, or with mitigation.quorum "
     "below the number of workers"},
    {"mitigation.catch_up", lets_workers_skip,
     "skip, or compute with backend=trio-ml, live, sharded-live or optireduce, or with "
     "mitigation.quorum below the number of workers"},
    {"pfe.*", has_pfe, "any with backend=trio-ml, trio-ml-wait or switchml-on-trio"},
    {"straggler.pattern", can_straggle,
     "none, or patterns that can act: slow-worker… with straggler.probability above 0; fail-slow "
     "and heavy-tail with straggler.factor and straggler.p99_over_p50 above 1 and a model that "
     "computes"},
    {"straggler.probability",
     [](const Scenario& s) {
       return uses(s, Straggling::kSlowWorker) || uses(s, Straggling::kSlowWorkerEach) ||
              uses(s, Straggling::kSlowWorkerFixed);
     },
     "0, or any with straggler.pattern=slow-worker, slow-worker-each or slow-worker-fixed"},
    {"straggler.worker", has_single_straggler,
     "0, or any with straggler.pattern=slow-worker-fixed, fail-slow, pause, absent or "
     "background-flow, and neither straggler.workers nor straggler.racks"},
    {"straggler.workers", uses_any, "none, or any with a straggler.pattern"},
    {"straggler.racks", uses_any, "none, or any with a straggler.pattern"},
    {"straggler.factor", [](const Scenario& s) { return uses(s, Straggling::kFailSlow); },
     "any with straggler.pattern=fail-slow"},
    {"straggler.p99_over_p50", [](const Scenario& s) { return uses(s, Straggling::kHeavyTail); },
     "any with straggler.pattern=heavy-tail"},
    {"straggler.pause_at_ms", [](const Scenario& s) { return uses(s, Straggling::kPause); },
     "any with straggler.pattern=pause"},
    {"straggler.pause_for_ms", [](const Scenario& s) { return uses(s, Straggling::kPause); },
     "any with straggler.pattern=pause"},
    {"straggler.background_share",
     [](const Scenario& s) { return uses(s, Straggling::kBackgroundFlow); },
     "any with straggler.pattern=background-flow"},
    {"straggler.trace", [](const Scenario& s) { return uses(s, Straggling::kTrace); },
     "none, or the path of a file with straggler.pattern=trace"},
    {"aggregators.colocated", is_sharded, "any with backend=sharded"},
    {"aggregators.spare", is_sharded, "any with backend=sharded"},
    {"switchml.preset", uses_switchml, "paper, or any with a SwitchML back end"},
    {"switchml.pool", uses_switchml, "0, or any with a SwitchML back end"},
    {"switchml.timeout_ms",
     [](const Scenario& s) { return uses_switchml(s) && s.host.retransmission; },
     "0, or any with a SwitchML back end and host.retransmission=true"},
    {"timeline.bin_ms", [](const Scenario& s) { return !s.timeline.link.empty(); },
     "10, or any with timeline.link"},
});

bool stands_for(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

/// Returns the rows of the table that concern a key.
std::vector<const DependentKey*> conditions_of(std::string_view name) {
  std::vector<const DependentKey*> conditions;
  for (const DependentKey& dependent : kDependentKeys) {
    if (stands_for(dependent.name, name)) conditions.push_back(&dependent);
  }
  return conditions;
}

}  // namespace

std::string allowed_values(const ScenarioKey& key) {
  if (key.names.empty()) return tributary::allowed_values(key.spec);
  return fmt::format("{}", fmt::join(key.names, ", "));
}

const ScenarioKey* find_scenario_key(std::string_view name) {
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.spec.name == name) return &key;
  }
  return nullptr;
}

Result<Setting> read_setting(const WrittenKey& written) {
  const ScenarioKey* key = find_scenario_key(written.name);
  if (key == nullptr) {
    std::vector<std::string> names;
    for (const ScenarioKey& known : scenario_keys()) names.emplace_back(known.spec.name);
    return failure(place_prefix(written.where) + unknown_name("key", written.name, names));
  }
  // An empty text may be a value, as of an empty list, so convert_key() must not refuse it.
  const bool empty = written.text.empty() && is_text(key->spec.type);
  // A number may be a list of one: bucket_bytes = 4096.
  WrittenKey listed = written;
  if (key->is_list && written.type == WrittenType::kInteger) listed.type = WrittenType::kUntyped;
  const Result<KeyValue> value =
      empty ? Result<KeyValue>(std::string()) : convert_key(key->spec, listed);
  if (!value) return tl::unexpected(value.error());
  Result<ScenarioChange> change = key->read(*value);
  if (!change) {
    return failure(fmt::format("{}{}={} {}", place_prefix(written.where), written.name,
                               written.text, change.error().text));
  }
  return Setting{.name = written.name, .where = written.where, .set = std::move(*change)};
}

Result<std::vector<Setting>> read_settings(std::span<const WrittenKey> written) {
  std::vector<Setting> settings;
  for (const WrittenKey& key : written) {
    Result<Setting> setting = read_setting(key);
    if (!setting) return tl::unexpected(setting.error());
    settings.push_back(std::move(*setting));
  }
  return settings;
}

Result<WrittenKey> split_setting(std::string_view text, std::string where) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return failure(fmt::format("{}: '{}' is not key=value; allowed: key=value", where, text));
  }
  return WrittenKey{.name = std::string(text.substr(0, equals)),
                    .text = std::string(text.substr(equals + 1)),
                    .where = std::move(where)};
}

Result<std::vector<WrittenKey>> read_keys(const std::string& path) {
  const Result<toml::table> file = parse_toml_file(path, path);
  if (!file) return tl::unexpected(file.error());
  return keys_of(*file, path);
}

Result<void> check_command(std::span<const WrittenKey> keys, const std::string& path,
                           std::string_view command) {
  struct Kind {
    bool (*has)(std::string_view key);
    const char* command;
    const char* name;
  };
  constexpr std::array<Kind, 3> kKinds{{
      {[](std::string_view key) { return key.starts_with("sweep."); }, "sweep", "a sweep"},
      {[](std::string_view key) { return key.starts_with("compare."); }, "compare", "a comparison"},
      {[](std::string_view key) { return key == "job"; }, "run", "a run of several jobs"},
  }};
  for (const WrittenKey& key : keys) {
    for (const Kind& kind : kKinds) {
      if (!kind.has(key.name) || kind.command == command) continue;
      return failure(fmt::format("{}: this is {}; use: tributary lab {} {}", key.where, kind.name,
                                 kind.command, path));
    }
  }
  return {};
}

Result<Scenario> make_scenario(std::span<const Setting> settings, Scenario base,
                               const std::string& place) {
  for (const Setting& setting : settings) setting.set(base);
  if (const auto refusal = find_refusal(base)) {
    return tl::unexpected(placed(*refusal, settings, place));
  }
  return base;
}

Result<Scenario> make_scenario(std::span<const WrittenKey> keys) {
  const Result<std::vector<Setting>> settings = read_settings(keys);
  if (!settings) return tl::unexpected(settings.error());
  Result<Scenario> scenario = make_scenario(std::span<const Setting>(*settings));
  if (!scenario) return scenario;
  if (const auto good = check_effects(*scenario, *settings); !good) {
    return tl::unexpected(good.error());
  }
  return scenario;
}

Result<void> check_effects(std::span<const Scenario* const> scenarios,
                           std::span<const Setting> settings, std::string_view each) {
  const Scenario defaults;
  for (const Setting& setting : settings) {
    const std::vector<const DependentKey*> conditions = conditions_of(setting.name);
    if (conditions.empty()) continue;
    const ScenarioKey& key = *find_scenario_key(setting.name);
    const std::string usual = key.show(defaults);
    std::string refusal;  // Of the first scenario in which the value has no effect.
    for (const Scenario* scenario : scenarios) {
      const std::string value = key.show(*scenario);
      if (value == usual) continue;
      const auto unmet = std::ranges::find_if(conditions, [&](const DependentKey* dependent) {
        return !dependent->has_effect(*scenario);
      });
      if (unmet == conditions.end()) {
        refusal.clear();
        break;
      }
      if (!refusal.empty()) continue;
      const std::string where = scenarios.size() > 1 ? fmt::format(" in any {}", each) : "";
      refusal = fmt::format("{}={} has no effect{}; allowed: {}", setting.name, value, where,
                            (*unmet)->needed);
    }
    if (refusal.empty()) continue;
    return tl::unexpected(placed({.key = setting.name, .text = refusal}, settings, ""));
  }
  return {};
}

Result<void> check_effects(const Scenario& scenario, std::span<const Setting> settings) {
  const Scenario* const only = &scenario;
  return check_effects(std::span(&only, 1), settings);
}

std::string scenario_text(const Scenario& scenario) {
  std::string text;
  for (const ScenarioKey& key : scenario_keys()) {
    const std::string value = key.show(scenario);
    text += is_text(key.spec.type) ? fmt::format("{} = \"{}\"\n", key.spec.name, value)
                                   : fmt::format("{} = {}\n", key.spec.name, value);
  }
  return text;
}

std::string scenario_help() {
  std::string lines;
  const Scenario defaults;
  for (const ScenarioKey& key : scenario_keys()) {
    const std::string fallback = key.show(defaults);
    lines += fmt::format("{}: {} ({}; default {})\n", key.spec.name, key.spec.help,
                         allowed_values(key), fallback.empty() ? "none" : fallback);
  }
  return lines;
}

}  // namespace tributary::lab
