// SPDX-License-Identifier: Apache-2.0
#include "lab/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/toml_file.h"
#include "lab/backends/backend.h"

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

/// A key that has an effect only with some values of another key.
struct DependentKey {
  const char* name;
  bool (*is_set)(const Scenario& scenario);
  bool (*has_effect)(const Scenario& scenario);
  const char* needed;
};

bool uses(const Scenario& scenario, Straggling pattern) {
  return scenario.straggler.pattern.contains(pattern);
}
bool uses_switchml(const Scenario& scenario) {
  return backend_kind(scenario.backend).switchml != nullptr;
}
bool is_sharded(const Scenario& scenario) {
  return scenario.backend == Backend::kSharded || scenario.backend == Backend::kShardedLive;
}

const std::array<DependentKey, 16> kDependentKeys{{
    {.name = "straggler.probability",
     .is_set = [](const Scenario& s) { return s.straggler.probability > 0; },
     .has_effect =
         [](const Scenario& s) {
           return uses(s, Straggling::kSlowWorker) || uses(s, Straggling::kSlowWorkerEach) ||
                  uses(s, Straggling::kSlowWorkerFixed);
         },
     .needed = "0, or any with straggler.pattern=slow-worker, slow-worker-each or "
               "slow-worker-fixed"},
    {.name = "model.bucket_bytes",
     .is_set = [](const Scenario& s) { return !s.model.bucket_bytes.empty(); },
     .has_effect = [](const Scenario& s) { return s.model.kind == Model::kCustom; },
     .needed = "none, or any with model.name=custom"},
    {.name = "topology_file",
     .is_set = [](const Scenario& s) { return !s.topology_file.empty(); },
     .has_effect = [](const Scenario& s) { return s.topology == Topology::kFile; },
     .needed = "none, or the path of a file with topology=file"},
    {.name = "straggler.factor",
     .is_set = [](const Scenario& s) { return s.straggler.factor != StragglerSettings().factor; },
     .has_effect = [](const Scenario& s) { return uses(s, Straggling::kFailSlow); },
     .needed = "any with straggler.pattern=fail-slow"},
    {.name = "straggler.p99_over_p50",
     .is_set =
         [](const Scenario& s) {
           return s.straggler.p99_over_p50 != StragglerSettings().p99_over_p50;
         },
     .has_effect = [](const Scenario& s) { return uses(s, Straggling::kHeavyTail); },
     .needed = "any with straggler.pattern=heavy-tail"},
    {.name = "straggler.trace",
     .is_set = [](const Scenario& s) { return !s.straggler.trace.empty(); },
     .has_effect = [](const Scenario& s) { return uses(s, Straggling::kTrace); },
     .needed = "none, or the path of a file with straggler.pattern=trace"},
    {.name = "straggler.workers",
     .is_set = [](const Scenario& s) { return !s.straggler.workers.empty(); },
     .has_effect = [](const Scenario& s) { return !uses(s, Straggling::kNone); },
     .needed = "none, or any with a straggler.pattern"},
    {.name = "straggler.racks",
     .is_set = [](const Scenario& s) { return !s.straggler.racks.empty(); },
     .has_effect = [](const Scenario& s) { return !uses(s, Straggling::kNone); },
     .needed = "none, or any with a straggler.pattern"},
    {.name = "link.slow_rate_gbps",
     .is_set =
         [](const Scenario& s) {
           return s.slow_links.rate_bits_per_s != SlowLinks().rate_bits_per_s;
         },
     .has_effect = [](const Scenario& s) { return !s.slow_links.workers.empty(); },
     .needed = "any with link.slow_workers"},
    {.name = "fabric.slow_rate_gbps",
     .is_set =
         [](const Scenario& s) {
           return s.slow_uplinks.rate_bits_per_s != SlowUplinks().rate_bits_per_s;
         },
     .has_effect = [](const Scenario& s) { return !s.slow_uplinks.racks.empty(); },
     .needed = "any with fabric.slow_racks"},
    {.name = "link.loss_run",
     .is_set = [](const Scenario& s) { return s.link.faults.loss_run != 1; },
     .has_effect = [](const Scenario& s) { return s.link.faults.loss > 0; },
     .needed = "1, or any with link.loss above 0"},
    {.name = "fabric.loss_run",
     .is_set = [](const Scenario& s) { return s.fabric.faults.loss_run != 1; },
     .has_effect = [](const Scenario& s) { return s.fabric.faults.loss > 0; },
     .needed = "1, or any with fabric.loss above 0"},
    {.name = "aggregators.colocated",
     .is_set =
         [](const Scenario& s) {
           return s.aggregators.colocated != AggregatorsSettings().colocated;
         },
     .has_effect = is_sharded,
     .needed = "any with backend=sharded"},
    {.name = "aggregators.spare",
     .is_set = [](const Scenario& s) { return s.aggregators.spare != AggregatorsSettings().spare; },
     .has_effect = is_sharded,
     .needed = "any with backend=sharded"},
    {.name = "switchml.pool",
     .is_set = [](const Scenario& s) { return s.switchml.pool != SwitchmlSettings().pool; },
     .has_effect = uses_switchml,
     .needed = "0, or any with a SwitchML back end"},
    {.name = "switchml.timeout_ms",
     .is_set = [](const Scenario& s) { return s.switchml.timeout != SwitchmlSettings().timeout; },
     .has_effect = uses_switchml,
     .needed = "0, or any with a SwitchML back end"},
}};

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

Result<void> check_effects(const Scenario& scenario, std::span<const Setting> settings) {
  for (const DependentKey& key : kDependentKeys) {
    const bool written = std::ranges::any_of(
        settings, [&key](const Setting& setting) { return setting.name == key.name; });
    if (!written || !key.is_set(scenario) || key.has_effect(scenario)) continue;
    const std::string text = fmt::format("{}={} has no effect; allowed: {}", key.name,
                                         find_scenario_key(key.name)->show(scenario), key.needed);
    return tl::unexpected(placed({.key = key.name, .text = text}, settings, ""));
  }
  return {};
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
