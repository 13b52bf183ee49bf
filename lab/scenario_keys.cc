// SPDX-License-Identifier: Apache-2.0
// The table of scenario keys: each key's name, help and range, and the member it stands for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "lab/scenario_file.h"

namespace tributary::lab {
namespace {

/// Longest time that a key can say, in seconds; far below the end of Duration (2.9 years).
constexpr double kSecondsMax = 1e6;

/// Keys whose member is found by `field`, a function from Scenario& to a reference.
template <class F>
using Member = std::remove_reference_t<std::invoke_result_t<F, Scenario&>>;

/// A scenario to look at through a function that wants one to change.
template <class F>
Member<F> value_in(const Scenario& scenario, F field) {
  Scenario copy = scenario;
  return field(copy);
}

template <class F>
ScenarioKey uint_key(std::string_view name, uint64_t min, uint64_t max, std::string_view help,
                     F field) {
  return {.spec = {.name = name, .type = KeyType::kUint, .help = help, .min = min, .max = max},
          .show = [field](const Scenario& s) { return fmt::format("{}", value_in(s, field)); },
          .set = [field](Scenario& s, const KeyValue& value) -> Result<void> {
            field(s) = static_cast<Member<F>>(std::get<uint64_t>(value));
            return {};
          }};
}

/// A depth in bytes that 0 switches off, stored as the largest number there is.
template <class F>
ScenarioKey depth_key(std::string_view name, std::string_view help, F field) {
  return {.spec = {.name = name, .type = KeyType::kUint, .help = help},
          .show =
              [field](const Scenario& s) {
                const uint64_t depth = value_in(s, field);
                return fmt::format("{}", depth == UINT64_MAX ? 0 : depth);
              },
          .set = [field](Scenario& s, const KeyValue& value) -> Result<void> {
            const auto depth = std::get<uint64_t>(value);
            field(s) = depth == 0 ? UINT64_MAX : depth;
            return {};
          }};
}

template <class F>
ScenarioKey number_key(std::string_view name, double min, double max, std::string_view help,
                       F field) {
  return {.spec = {.name = name,
                   .type = KeyType::kNumber,
                   .help = help,
                   .number_min = min,
                   .number_max = max},
          .show = [field](const Scenario& s) { return fmt::format("{}", value_in(s, field)); },
          .set = [field](Scenario& s, const KeyValue& value) -> Result<void> {
            field(s) = std::get<double>(value);
            return {};
          }};
}

template <class F>
ScenarioKey probability_key(std::string_view name, std::string_view help, F field) {
  return number_key(name, 0.0, 1.0, help, field);
}

/// A rate in 10^9 bit/s, stored in bit/s. Zero is no rate.
template <class F>
ScenarioKey gbps_key(std::string_view name, std::string_view help, F field) {
  constexpr double kBitsPerGbit = 1e9;
  return {.spec = {.name = name,
                   .type = KeyType::kNumber,
                   .help = help,
                   .number_min = 0.001,
                   .number_max = 100'000},
          .show =
              [field](const Scenario& s) {
                return fmt::format("{}", static_cast<double>(value_in(s, field)) / kBitsPerGbit);
              },
          .set = [field](Scenario& s, const KeyValue& value) -> Result<void> {
            field(s) = static_cast<uint64_t>(std::llround(std::get<double>(value) * kBitsPerGbit));
            return {};
          }};
}

/// A time, in the unit with which the key's name ends.
template <class F>
ScenarioKey time_key(std::string_view name, std::string_view help, F field) {
  const double ticks = name.ends_with("_ns")   ? static_cast<double>(nanoseconds(1).ticks())
                       : name.ends_with("_us") ? static_cast<double>(microseconds(1).ticks())
                       : name.ends_with("_ms") ? static_cast<double>(milliseconds(1).ticks())
                                               : static_cast<double>(seconds(1).ticks());
  const double unit_s = ticks / static_cast<double>(seconds(1).ticks());
  return {.spec = {.name = name,
                   .type = KeyType::kNumber,
                   .help = help,
                   .number_min = 0,
                   .number_max = kSecondsMax / unit_s},
          .show =
              [field, ticks](const Scenario& s) {
                return fmt::format("{}", static_cast<double>(value_in(s, field).ticks()) / ticks);
              },
          .set = [field, ticks](Scenario& s, const KeyValue& value) -> Result<void> {
            field(s) = Duration::from_ticks(std::llround(std::get<double>(value) * ticks));
            return {};
          }};
}

template <class F>
ScenarioKey flag_key(std::string_view name, std::string_view help, F field) {
  return {
      .spec = {.name = name, .type = KeyType::kBool, .help = help},
      .show =
          [field](const Scenario& s) { return std::string(value_in(s, field) ? "true" : "false"); },
      .set = [field](Scenario& s, const KeyValue& value) -> Result<void> {
        field(s) = std::get<bool>(value);
        return {};
      }};
}

/// One of some names, which `choices()` gives.
template <class F>
ScenarioKey name_key(std::string_view name, std::string_view help,
                     std::function<std::vector<std::string>()> choices, F field) {
  return {.spec = {.name = name, .type = KeyType::kText, .help = help},
          .show = [field](const Scenario& s) { return value_in(s, field); },
          .set = [field, choices](Scenario& s, const KeyValue& value) -> Result<void> {
            const auto& text = std::get<std::string>(value);
            const std::vector<std::string> names = choices();
            if (std::find(names.begin(), names.end(), text) == names.end()) {
              return failure("is refused: " + unknown_name("name", text, names));
            }
            field(s) = text;
            return {};
          },
          .names = choices};
}

/// One of an enumeration's values, which are named in their order.
template <class F>
ScenarioKey enum_key(std::string_view name, std::string_view help, std::vector<std::string> names,
                     F field) {
  return {
      .spec = {.name = name, .type = KeyType::kText, .help = help},
      .show = [field, names](
                  const Scenario& s) { return names.at(static_cast<size_t>(value_in(s, field))); },
      .set = [field, names](Scenario& s, const KeyValue& value) -> Result<void> {
        const auto& text = std::get<std::string>(value);
        const auto found = std::find(names.begin(), names.end(), text);
        if (found == names.end()) {
          return failure("is refused: " + unknown_name("name", text, names));
        }
        field(s) = static_cast<Member<F>>(found - names.begin());
        return {};
      },
      .names = [names] { return names; }};
}

std::vector<std::string> names_of(const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice& choice : choices) names.push_back(choice.name);
  return names;
}

/// Items between commas; none for an empty text.
std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

Result<void> set_bucket_bytes(Scenario& scenario, const KeyValue& value) {
  std::vector<uint64_t> sizes;
  for (const std::string& item : items_of(std::get<std::string>(value))) {
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), size);
    if (error != std::errc() || end != item.data() + item.size() || size == 0) {
      return failure("is no list of sizes; allowed: bytes, 1 or more each, with commas between");
    }
    sizes.push_back(size);
  }
  scenario.model.bucket_bytes = std::move(sizes);
  return {};
}

std::string show_bucket_bytes(const Scenario& scenario) {
  return fmt::format("{}", fmt::join(scenario.model.bucket_bytes, ","));
}

Result<void> set_overrides(Scenario& scenario, const KeyValue& value) {
  std::vector<ParameterOverride> overrides;
  for (const std::string& item : items_of(std::get<std::string>(value))) {
    const size_t equals = std::min(item.find('='), item.size());
    const char* number = item.data() + std::min(equals + 1, item.size());
    ParameterOverride entry{.name = item.substr(0, equals), .value = 0.0};
    const auto [end, error] = std::from_chars(number, item.data() + item.size(), entry.value);
    if (error != std::errc() || end != item.data() + item.size() || equals == 0) {
      return failure("is no list of parameters; allowed: name=number, with commas between");
    }
    overrides.push_back(std::move(entry));
  }
  scenario.pfe.overrides = std::move(overrides);
  return {};
}

std::string show_overrides(const Scenario& scenario) {
  std::string text;
  for (const ParameterOverride& entry : scenario.pfe.overrides) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", entry.name, entry.value);
  }
  return text;
}

Result<void> set_captures(Scenario& scenario, const KeyValue& value) {
  std::vector<Scenario::Capture> captures;
  for (const std::string& item : items_of(std::get<std::string>(value))) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
      return failure("is no list of captures; allowed: link=file, with commas between");
    }
    captures.push_back({.link = item.substr(0, equals), .path = item.substr(equals + 1)});
  }
  scenario.captures = std::move(captures);
  return {};
}

std::string show_captures(const Scenario& scenario) {
  std::string text;
  for (const Scenario::Capture& capture : scenario.captures) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", capture.link, capture.path);
  }
  return text;
}

ScenarioKey list_key(std::string_view name, std::string_view help,
                     std::string (*show)(const Scenario&),
                     Result<void> (*set)(Scenario&, const KeyValue&)) {
  return {.spec = {.name = name, .type = KeyType::kText, .help = help}, .show = show, .set = set};
}

using Keys = std::vector<ScenarioKey>;

void add_cluster_keys(Keys& keys) {
  keys.push_back(name_key(
      "backend", "who aggregates; see `tributary lab list`", [] { return names_of(backends()); },
      [](Scenario& s) -> std::string& { return s.backend; }));
  keys.push_back(enum_key("topology", "how workers and aggregators are joined",
                          {"star", "chassis", "two-level", "leaf-spine", "file"},
                          [](Scenario& s) -> Topology& { return s.topology; }));
  keys.push_back(list_key(
      "topology_file", "topology=file: nodes and cables (docs/experiments.md)",
      [](const Scenario& s) { return s.topology_file; },
      [](Scenario& s, const KeyValue& value) -> Result<void> {
        s.topology_file = std::get<std::string>(value);
        return {};
      }));
  keys.push_back(uint_key("leaves", 1, 256, "PFEs or racks with workers, evenly filled",
                          [](Scenario& s) -> uint32_t& { return s.leaves; }));
  keys.push_back(uint_key("spines", 1, 64, "leaf-spine: switches in the middle",
                          [](Scenario& s) -> uint32_t& { return s.spines; }));
  keys.push_back(uint_key("workers", 1, 256, "workers; the format names 256 sources",
                          [](Scenario& s) -> uint32_t& { return s.workers; }));
  keys.push_back(uint_key("iterations", 1, 1'000'000, "iterations of each worker",
                          [](Scenario& s) -> uint32_t& { return s.iterations; }));
  keys.push_back(uint_key("seed", 0, INT64_MAX, "of everything that is random",
                          [](Scenario& s) -> uint64_t& { return s.seed; }));
  keys.push_back(uint_key("gradients", 1, 4095, "in a packet; the format counts to 4095",
                          [](Scenario& s) -> uint32_t& { return s.gradients; }));
  keys.push_back(uint_key("window", 1, 65'536, "packets in flight of a worker, a power of two",
                          [](Scenario& s) -> uint32_t& { return s.window; }));
  keys.push_back(uint_key("train", 1, 4'096, "packets that one simulated packet stands for",
                          [](Scenario& s) -> uint32_t& { return s.train; }));
  keys.push_back(enum_key("payload", "real: gradients exist and every sum is checked",
                          {"elided", "real"}, [](Scenario& s) -> Payload& { return s.payload; }));
  keys.push_back(time_key("limit_s", "virtual time that ends a run; 0: from the scenario",
                          [](Scenario& s) -> Duration& { return s.limit; }));
  keys.push_back(list_key("capture", "pcap files of links: link=file, with commas between",
                          show_captures, set_captures));
}

void add_model_keys(Keys& keys) {
  keys.push_back(name_key(
      "model.name", "what is trained; see `tributary lab list`", [] { return names_of(models()); },
      [](Scenario& s) -> std::string& { return s.model.name; }));
  keys.push_back(list_key("model.bucket_bytes", "custom: bytes of each bucket as it gets ready",
                          show_bucket_bytes, set_bucket_bytes));
  keys.push_back(time_key("model.forward_ms", "forward computation; 0: the model's own",
                          [](Scenario& s) -> Duration& { return s.model.forward; }));
  keys.push_back(time_key("model.backward_ms", "backward computation; 0: the model's own",
                          [](Scenario& s) -> Duration& { return s.model.backward; }));
}

/// The same keys for the cables of workers ("link") and between aggregators ("fabric").
template <class F>
void add_link_keys(Keys& keys, std::array<std::string_view, 10> names, F settings) {
  keys.push_back(gbps_key(names[0], "rate of each direction", [settings](Scenario& s) -> uint64_t& {
    return settings(s).rate_bits_per_s;
  }));
  keys.push_back(time_key(names[1], "propagation delay", [settings](Scenario& s) -> Duration& {
    return settings(s).propagation;
  }));
  keys.push_back(
      uint_key(names[2], 1, INT64_MAX, "output queue; what does not fit is lost",
               [settings](Scenario& s) -> uint64_t& { return settings(s).queue_bytes_max; }));
  keys.push_back(depth_key(names[3], "ECN mark above this depth; 0: off",
                           [settings](Scenario& s) -> uint64_t& { return settings(s).ecn_bytes; }));
  keys.push_back(probability_key(names[4], "a packet is lost", [settings](Scenario& s) -> double& {
    return settings(s).faults.loss;
  }));
  keys.push_back(
      probability_key(names[5], "a bit flips, so the checksum drops the packet",
                      [settings](Scenario& s) -> double& { return settings(s).faults.corrupt; }));
  keys.push_back(
      probability_key(names[6], "a packet comes twice",
                      [settings](Scenario& s) -> double& { return settings(s).faults.duplicate; }));
  keys.push_back(
      probability_key(names[7], "a packet is held back past later ones",
                      [settings](Scenario& s) -> double& { return settings(s).faults.reorder; }));
  keys.push_back(
      time_key(names[8], "held back at most so long",
               [settings](Scenario& s) -> Duration& { return settings(s).faults.reorder_max; }));
  keys.push_back(
      time_key(names[9], "added to the delay, uniform from 0",
               [settings](Scenario& s) -> Duration& { return settings(s).faults.jitter; }));
}

void add_network_keys(Keys& keys) {
  add_link_keys(
      keys,
      {"link.rate_gbps", "link.propagation_ns", "link.queue_bytes", "link.ecn_bytes", "link.loss",
       "link.corrupt", "link.duplicate", "link.reorder", "link.reorder_max_us", "link.jitter_us"},
      [](Scenario& s) -> net::LinkConfig& { return s.link; });
  add_link_keys(keys,
                {"fabric.rate_gbps", "fabric.propagation_ns", "fabric.queue_bytes",
                 "fabric.ecn_bytes", "fabric.loss", "fabric.corrupt", "fabric.duplicate",
                 "fabric.reorder", "fabric.reorder_max_us", "fabric.jitter_us"},
                [](Scenario& s) -> net::LinkConfig& { return s.fabric; });
  keys.push_back(gbps_key("host.nic_gbps", "rate of a worker's network card",
                          [](Scenario& s) -> uint64_t& { return s.host.nic_bits_per_s; }));
  keys.push_back(time_key("host.packet_cost_ns", "what a packet costs the host, each direction",
                          [](Scenario& s) -> Duration& { return s.host.packet_cost; }));
  keys.push_back(time_key("host.gradients_cost_ns", "what 1024 gradients in it cost beside",
                          [](Scenario& s) -> Duration& { return s.host.gradients_cost; }));
  keys.push_back(uint_key("host.receive_buffer_bytes", 1, INT64_MAX, "what does not fit is lost",
                          [](Scenario& s) -> uint64_t& { return s.host.receive_buffer_bytes; }));
  keys.push_back(flag_key("host.retransmission", "repair losses by probes",
                          [](Scenario& s) -> bool& { return s.host.retransmission; }));
  keys.push_back(time_key("host.deadline_s", "longest wait for a peer",
                          [](Scenario& s) -> Duration& { return s.host.deadline; }));
}

void add_mitigation_keys(Keys& keys) {
  keys.push_back(time_key("mitigation.timeout_ms", "straggler timeout",
                          [](Scenario& s) -> Duration& { return s.mitigation.timeout; }));
  keys.push_back(uint_key("mitigation.timer_threads", 1, 4096, "timer threads that share a scan",
                          [](Scenario& s) -> uint32_t& { return s.mitigation.timer_threads; }));
  keys.push_back(time_key("mitigation.permanent_after_ms", "a straggler then counts as gone",
                          [](Scenario& s) -> Duration& { return s.mitigation.permanent_after; }));
  keys.push_back(uint_key("mitigation.history", 1, 65'536, "results kept for each place",
                          [](Scenario& s) -> uint32_t& { return s.mitigation.history; }));
  keys.push_back(enum_key("mitigation.catch_up", "a late worker leaves computation out, or not",
                          {"skip", "compute"},
                          [](Scenario& s) -> CatchUp& { return s.mitigation.catch_up; }));
  keys.push_back(
      enum_key("mitigation.on_desynchronised", "a worker past the kept results", {"drop", "stop"},
               [](Scenario& s) -> OnDesynchronised& { return s.mitigation.on_desynchronised; }));
}

void add_straggler_keys(Keys& keys) {
  keys.push_back(name_key(
      "straggler.pattern", "who is slow; see `tributary lab list`",
      [] { return names_of(straggler_patterns()); },
      [](Scenario& s) -> std::string& { return s.straggler.pattern; }));
  keys.push_back(probability_key("straggler.probability", "slow-worker: a delay point delays",
                                 [](Scenario& s) -> double& { return s.straggler.probability; }));
  keys.push_back(time_key("straggler.typical_iteration_ms", "unit of delays; 0: measured first",
                          [](Scenario& s) -> Duration& { return s.straggler.typical_iteration; }));
  keys.push_back(uint_key("straggler.worker", 0, 255, "patterns of one worker: which",
                          [](Scenario& s) -> uint32_t& { return s.straggler.worker; }));
  keys.push_back(number_key("straggler.factor", 1, 1000, "fail-slow: times as long",
                            [](Scenario& s) -> double& { return s.straggler.factor; }));
  keys.push_back(number_key("straggler.p99_over_p50", 1, 1000, "heavy-tail: of computation time",
                            [](Scenario& s) -> double& { return s.straggler.p99_over_p50; }));
  keys.push_back(time_key("straggler.pause_at_ms", "pause: when the process stops",
                          [](Scenario& s) -> Duration& { return s.straggler.pause_at; }));
  keys.push_back(time_key("straggler.pause_for_ms", "pause: for how long",
                          [](Scenario& s) -> Duration& { return s.straggler.pause_for; }));
  keys.push_back(
      probability_key("straggler.background_share", "background-flow: part of the link's rate",
                      [](Scenario& s) -> double& { return s.straggler.background_share; }));
}

void add_pfe_keys(Keys& keys) {
  keys.push_back(uint_key("pfe.generation", 1, 6, "of Trio's chipset",
                          [](Scenario& s) -> uint32_t& { return s.pfe.generation; }));
  keys.push_back(name_key(
      "pfe.fidelity", "exact: each memory request is an event",
      [] {
        return std::vector<std::string>{"burst", "exact"};
      },
      [](Scenario& s) -> std::string& { return s.pfe.fidelity; }));
  keys.push_back(list_key("pfe.override", "model parameters: name=number, with commas between",
                          show_overrides, set_overrides));
}

void add_switchml_keys(Keys& keys) {
  keys.push_back(
      enum_key("switchml.preset", "SwitchML's workers as the paper or its code has them",
               {std::begin(host::kSwitchmlPresetNames), std::end(host::kSwitchmlPresetNames)},
               [](Scenario& s) -> host::SwitchmlPreset& { return s.switchml.preset; }));
  keys.push_back(uint_key("switchml.pool", 0, 16'384,
                          "slots, its window; 0: by the preset, see docs",
                          [](Scenario& s) -> uint32_t& { return s.switchml.pool; }));
  keys.push_back(time_key("switchml.timeout_ms", "of retransmission; 0: the preset's",
                          [](Scenario& s) -> Duration& { return s.switchml.timeout; }));
}

void add_timeline_keys(Keys& keys) {
  keys.push_back(list_key(
      "timeline.link", "count this link's packets over time; empty: none",
      [](const Scenario& s) { return s.timeline.link; },
      [](Scenario& s, const KeyValue& value) -> Result<void> {
        s.timeline.link = std::get<std::string>(value);
        return {};
      }));
  keys.push_back(time_key("timeline.bin_ms", "what is counted together",
                          [](Scenario& s) -> Duration& { return s.timeline.bin; }));
}

}  // namespace

std::span<const ScenarioKey> scenario_keys() {
  static const Keys table = [] {
    Keys keys;
    add_cluster_keys(keys);
    add_model_keys(keys);
    add_network_keys(keys);
    add_mitigation_keys(keys);
    add_straggler_keys(keys);
    add_pfe_keys(keys);
    add_switchml_keys(keys);
    add_timeline_keys(keys);
    return keys;
  }();
  return table;
}

}  // namespace tributary::lab
