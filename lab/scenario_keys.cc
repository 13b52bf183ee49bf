// SPDX-License-Identifier: Apache-2.0
// The table of scenario keys: each key's name, help, range and member of Scenario.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "apps/trio_ml/config.h"
#include "base/number_text.h"
#include "host/send_gate.h"
#include "lab/scenario_key_kinds.h"

namespace tributary::lab {
namespace {

std::vector<std::string> names_of(const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice& choice : choices) names.push_back(choice.name);
  return names;
}

/// Splits a text at its commas. Returns nothing for an empty text.
std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

/// A gradient of the largest models has less.
constexpr uint64_t kBucketBytesMax = 1'000'000'000'000;

Result<std::vector<uint64_t>> parse_sizes(const std::string& text) {
  std::vector<uint64_t> sizes;
  for (const std::string& item : items_of(text)) {
    const auto size = parse_number<uint64_t>(item);
    if (!size || *size == 0 || *size > kBucketBytesMax) {
      return failure(
          "is not a list of sizes; allowed: sizes from 1 byte to 1 TB (10^12), separated by "
          "commas");
    }
    sizes.push_back(*size);
  }
  return sizes;
}

std::string show_sizes(const std::vector<uint64_t>& sizes) {
  return fmt::format("{}", fmt::join(sizes, ","));
}

/// Reads a list of ranks or racks. Sorts it and drops duplicates.
Result<std::vector<uint32_t>> parse_numbers(const std::string& text) {
  constexpr uint32_t kMax = kWorkersMax - 1;
  std::set<uint32_t> numbers;
  for (const std::string& item : items_of(text)) {
    const auto number = parse_number<uint32_t>(item);
    if (!number || *number > kMax) {
      return failure(
          fmt::format("is not a list of numbers; allowed: 0 to {}, separated by commas", kMax));
    }
    numbers.insert(*number);
  }
  return std::vector<uint32_t>(numbers.begin(), numbers.end());
}

std::string show_numbers(const std::vector<uint32_t>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ","));
}

/// Reads the names of patterns with "+" between.
Result<PatternSet> parse_patterns(const std::string& text) {
  const std::vector<std::string> names = names_of(straggler_patterns());
  PatternSet patterns = Straggling::kNone;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return failure("is refused: " + unknown_name("name", name, names));
    const auto pattern = static_cast<Straggling>(found - names.begin());
    const bool is_none = pattern == Straggling::kNone;
    if (begin > 0 && (is_none || patterns == Straggling::kNone)) {
      return failure("is not allowed; allowed: none alone, or patterns joined by +");
    }
    if (begin > 0 && patterns.contains(pattern)) {
      return failure(fmt::format("names {} twice; allowed: each pattern once", name));
    }
    patterns.add(pattern);
    begin = end + 1;
  }
  return patterns;
}

std::string show_patterns(const PatternSet& patterns) {
  std::string text;
  for (size_t i = 0; i < straggler_patterns().size(); i++) {
    if (!patterns.contains(static_cast<Straggling>(i))) continue;
    text += (text.empty() ? "" : "+") + straggler_patterns()[i].name;
  }
  return text;
}

Result<std::vector<ParameterOverride>> parse_overrides(const std::string& text) {
  std::vector<ParameterOverride> overrides;
  for (const std::string& item : items_of(text)) {
    const size_t equals = std::min(item.find('='), item.size());
    const auto value = parse_number<double>(item.substr(std::min(equals + 1, item.size())));
    if (!value || equals == 0) {
      return failure("is not a list of parameters; allowed: name=number, separated by commas");
    }
    overrides.push_back({.name = item.substr(0, equals), .value = *value});
  }
  return overrides;
}

std::string show_overrides(const std::vector<ParameterOverride>& overrides) {
  std::string text;
  for (const ParameterOverride& entry : overrides) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", entry.name, entry.value);
  }
  return text;
}

std::string show_captures(const std::vector<Scenario::Capture>& captures) {
  std::string text;
  for (const Scenario::Capture& capture : captures) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", capture.link, capture.path);
  }
  return text;
}

using Keys = std::vector<ScenarioKey>;

void add_cluster_keys(Keys& keys) {
  keys.push_back(ordered_key(
      "backend", "the system that aggregates; see `tributary lab list`", names_of(backends()),
      [](auto& s) -> auto& { return s.backend; }));
  keys.push_back(ordered_key(
      "topology", "the network between workers and aggregators",
      {"star", "chassis", "two-level", "leaf-spine", "file"},
      [](auto& s) -> auto& { return s.topology; }));
  keys.push_back(text_key(
      "topology_file", "topology=file: nodes and cables (docs/topology-files.md)",
      [](auto& s) -> auto& { return s.topology_file; }));
  keys.push_back(uint_key(
      "leaves", 1, 256, "PFEs or racks; workers are spread evenly over them",
      [](auto& s) -> auto& { return s.leaves; }));
  keys.push_back(uint_key(
      "spines", 1, 64, "leaf-spine: number of spine switches",
      [](auto& s) -> auto& { return s.spines; }));
  keys.push_back(uint_key(
      "workers", 1, kWorkersMax, "workers; more than 256 need a tree or a ring",
      [](auto& s) -> auto& { return s.workers; }));
  keys.push_back(uint_key(
      "iterations", 1, 1'000'000, "iterations of each worker",
      [](auto& s) -> auto& { return s.iterations; }));
  keys.push_back(uint_key(
      "seed", 0, INT64_MAX, "seed of all random draws", [](auto& s) -> auto& { return s.seed; }));
  keys.push_back(uint_key(
      "gradients", 1, 4095, "gradients in a packet; the header allows 4095",
      [](auto& s) -> auto& { return s.gradients; }));
  keys.push_back(uint_key(
      "window", 1, 65'536, "packets in flight per worker, a power of two",
      [](auto& s) -> auto& { return s.window; }));
  keys.push_back(uint_key(
      "train", 1, 4'096, "real packets per simulated packet",
      [](auto& s) -> auto& { return s.train; }));
  keys.push_back(ordered_key(
      "payload", "real: computes gradients and checks every sum", {"elided", "real"},
      [](auto& s) -> auto& { return s.payload; }));
  keys.push_back(time_key(
      "limit_s", "longest virtual time of a run; 0: from the scenario",
      [](auto& s) -> auto& { return s.limit; }));
  keys.push_back(list_key(
      "capture", "pcap files of links: link=file, separated by commas",
      [](auto& s) -> auto& { return s.captures; }, show_captures, parse_captures));
}

void add_model_keys(Keys& keys) {
  keys.push_back(ordered_key(
      "model.name", "the trained model; see `tributary lab list`", names_of(models()),
      [](auto& s) -> auto& { return s.model.kind; }));
  keys.push_back(list_key(
      "model.bucket_bytes",
      "custom: bytes of each bucket in the order of the backward pass, separated by commas",
      [](auto& s) -> auto& { return s.model.bucket_bytes; }, show_sizes, parse_sizes));
  keys.push_back(time_key(
      "model.forward_ms", "time of the forward pass; 0: the model's",
      [](auto& s) -> auto& { return s.model.forward; }));
  keys.push_back(time_key(
      "model.backward_ms", "time of the backward pass; 0: the model's",
      [](auto& s) -> auto& { return s.model.backward; }));
  keys.push_back(flag_key(
      "model.overlap_forward", "start each layer when its sum has arrived",
      [](auto& s) -> auto& { return s.model.overlap_forward; }));
  keys.push_back(flag_key(
      "model.overlap_backward", "send buckets during the backward pass",
      [](auto& s) -> auto& { return s.model.overlap_backward; }));
  keys.push_back(time_key(
      "model.input_ms", "time of the input pipeline outside computation",
      [](auto& s) -> auto& { return s.model.input; }));
  keys.push_back(number_key(
      "model.staging_gbps", 0, 100'000,
      "rate of copies between GPU and host, each way; 0: no copies",
      [](auto& s) -> auto& { return s.model.staging_gbps; }));
  keys.push_back(uint_key(
      "model.local_steps", 1, 1000, "local iterations before each exchange (local SGD)",
      [](auto& s) -> auto& { return s.model.local_steps; }));
}

constexpr TimeRange kLinkDelay{.max = net::kDelayMax};

/// The same keys for the cables of workers ("link") and between aggregators ("fabric").
template <class F>
void add_link_keys(Keys& keys, std::array<std::string_view, 11> names, F settings) {
  keys.push_back(gbps_key(
      names[0], "rate of each direction", [settings](auto& s) -> auto& {
        return settings(s).rate_bits_per_s;
      }));
  keys.push_back(time_key(
      names[1],
      "propagation delay", [settings](auto& s) -> auto& { return settings(s).propagation; },
      kLinkDelay));
  keys.push_back(uint_key(
      names[2], 1, INT64_MAX,
      "size of the output queue, which drops when full", [settings](auto& s) -> auto& {
        return settings(s).queue_bytes_max;
      }));
  keys.push_back(depth_key(
      names[3], "ECN mark above this depth; 0: off", [settings](auto& s) -> auto& {
        return settings(s).ecn_bytes;
      }));
  keys.push_back(probability_key(
      names[4], "probability of losing a packet", [settings](auto& s) -> auto& {
        return settings(s).faults.loss;
      }));
  keys.push_back(number_key(
      names[10], 1, 1e6,
      "mean length of a run of losses; 1: independent losses", [settings](auto& s) -> auto& {
        return settings(s).faults.loss_run;
      }));
  keys.push_back(probability_key(
      names[5],
      "probability of a bit error; the checksum drops the packet", [settings](auto& s) -> auto& {
        return settings(s).faults.corrupt;
      }));
  keys.push_back(probability_key(
      names[6], "probability of duplicating a packet", [settings](auto& s) -> auto& {
        return settings(s).faults.duplicate;
      }));
  keys.push_back(probability_key(
      names[7], "probability of delaying a packet past later ones", [settings](auto& s) -> auto& {
        return settings(s).faults.reorder;
      }));
  keys.push_back(time_key(
      names[8], "longest delay of a reordered packet",
      [settings](auto& s) -> auto& { return settings(s).faults.reorder_max; }, kLinkDelay));
  keys.push_back(time_key(
      names[9], "largest extra delay; uniform from 0",
      [settings](auto& s) -> auto& { return settings(s).faults.jitter; }, kLinkDelay));
}

void add_network_keys(Keys& keys) {
  add_link_keys(
      keys,
      {"link.rate_gbps", "link.propagation_ns", "link.queue_bytes", "link.ecn_bytes", "link.loss",
       "link.corrupt", "link.duplicate", "link.reorder", "link.reorder_max_us", "link.jitter_us",
       "link.loss_run"},
      [](auto& s) -> auto& { return s.link; });
  add_link_keys(
      keys,
      {"fabric.rate_gbps", "fabric.propagation_ns", "fabric.queue_bytes", "fabric.ecn_bytes",
       "fabric.loss", "fabric.corrupt", "fabric.duplicate", "fabric.reorder",
       "fabric.reorder_max_us", "fabric.jitter_us", "fabric.loss_run"},
      [](auto& s) -> auto& { return s.fabric; });
  keys.push_back(list_key(
      "link.slow_workers", "ranks whose cables are slow, separated by commas",
      [](auto& s) -> auto& { return s.slow_links.workers; }, show_numbers, parse_numbers));
  keys.push_back(gbps_key(
      "link.slow_rate_gbps", "rate of each direction of these cables",
      [](auto& s) -> auto& { return s.slow_links.rate_bits_per_s; }));
  keys.push_back(list_key(
      "fabric.slow_racks", "leaves whose uplinks are slow, separated by commas",
      [](auto& s) -> auto& { return s.slow_uplinks.racks; }, show_numbers, parse_numbers));
  keys.push_back(gbps_key(
      "fabric.slow_rate_gbps", "rate of each direction of these uplinks",
      [](auto& s) -> auto& { return s.slow_uplinks.rate_bits_per_s; }));
  keys.push_back(gbps_key(
      "host.nic_gbps", "rate of a worker's network card",
      [](auto& s) -> auto& { return s.host.nic_bits_per_s; }));
  keys.push_back(time_key(
      "host.packet_cost_ns", "CPU time per packet on a host, each direction",
      [](auto& s) -> auto& { return s.host.packet_cost; }));
  keys.push_back(time_key(
      "host.gradients_cost_ns", "further CPU time per 1024 gradients of a packet",
      [](auto& s) -> auto& { return s.host.gradients_cost; }));
  keys.push_back(uint_key(
      "host.receive_buffer_bytes", 1, INT64_MAX,
      "size of the receive buffer, which drops when full",
      [](auto& s) -> auto& { return s.host.receive_buffer_bytes; }));
  keys.push_back(flag_key(
      "host.retransmission", "repair losses by probes",
      [](auto& s) -> auto& { return s.host.retransmission; }));
  keys.push_back(ordered_key(
      "host.congestion", "workers' reaction to ECN marks; see docs/experiments.md",
      {std::begin(host::kCongestionControlNames), std::end(host::kCongestionControlNames)},
      [](auto& s) -> auto& { return s.host.congestion; }));
  keys.push_back(time_key(
      "host.deadline_s", "longest wait for a peer before an error",
      [](auto& s) -> auto& { return s.host.deadline; }));
  keys.push_back(uint_key(
      "host.priorities", 1, host::kPrioritiesMax,
      "priorities of buckets; those needed first are sent first",
      [](auto& s) -> auto& { return s.host.priorities; }));
}

void add_mitigation_keys(Keys& keys) {
  keys.push_back(time_key("mitigation.timeout_ms", "straggler timeout; Trio-ML: at least 1",
                          [](auto& s) -> auto& { return s.mitigation.timeout; },
                          {.max = trio_ml::kTimeoutRange.max}));
  keys.push_back(uint_key(
      "mitigation.timer_threads", 1, trio_ml::kTimerThreadsLimit, "timer threads that share a scan",
      [](auto& s) -> auto& { return s.mitigation.timer_threads; }));
  keys.push_back(time_key("mitigation.permanent_after_ms",
                          "silence after which a straggler counts as gone",
                          [](auto& s) -> auto& { return s.mitigation.permanent_after; },
                          {trio_ml::kPermanentRange.min, trio_ml::kPermanentRange.max}));
  keys.push_back(uint_key(
      "mitigation.history", 1, trio_ml::kHistoryLimit, "results kept for each place",
      [](auto& s) -> auto& { return s.mitigation.history; }));
  keys.push_back(uint_key(
      "mitigation.quorum", 0, 256, "waiting-switch: contributions that complete a block; 0: all",
      [](auto& s) -> auto& { return s.mitigation.quorum; }));
  keys.push_back(ordered_key(
      "mitigation.catch_up", "skip: a late worker leaves out computation", {"skip", "compute"},
      [](auto& s) -> auto& { return s.mitigation.catch_up; }));
  keys.push_back(ordered_key(
      "mitigation.on_desynchronised", "action on a worker that is behind the kept results",
      {"drop", "stop"}, [](auto& s) -> auto& { return s.mitigation.on_desynchronised; }));
}

/// The slowest cable has 1000 bit/s (net/topology_file.h), so the other traffic has at least 1.
constexpr double kBackgroundShareMin = 0.001;

void add_straggler_keys(Keys& keys) {
  keys.push_back(parsed_key(
      "straggler.pattern", "straggler patterns, joined by +; see `tributary lab list`",
      [](auto& s) -> auto& { return s.straggler.pattern; }, show_patterns, parse_patterns));
  keys.back().names = names_of(straggler_patterns());
  keys.push_back(probability_key(
      "straggler.probability", "slow-worker: probability of a delay at each point",
      [](auto& s) -> auto& { return s.straggler.probability; }));
  keys.push_back(time_key(
      "straggler.typical_iteration_ms",
      "iteration time that delays are multiples of; 0: measure it with backend=ideal",
      [](auto& s) -> auto& { return s.straggler.typical_iteration; }));
  keys.push_back(uint_key(
      "straggler.worker", 0, kWorkersMax - 1, "the worker of patterns with a single straggler",
      [](auto& s) -> auto& { return s.straggler.worker; }));
  keys.push_back(list_key(
      "straggler.workers", "limits any pattern to these ranks, separated by commas",
      [](auto& s) -> auto& { return s.straggler.workers; }, show_numbers, parse_numbers));
  keys.push_back(list_key(
      "straggler.racks", "adds all workers of these leaves, separated by commas",
      [](auto& s) -> auto& { return s.straggler.racks; }, show_numbers, parse_numbers));
  keys.push_back(number_key(
      "straggler.factor", 1, 1000,
      "fail-slow: factor of the time for computation, input and copies",
      [](auto& s) -> auto& { return s.straggler.factor; }));
  keys.push_back(number_key(
      "straggler.p99_over_p50", 1, 1000,
      "heavy-tail: p99 over p50 of the time for computation, input and copies",
      [](auto& s) -> auto& { return s.straggler.p99_over_p50; }));
  keys.push_back(time_key(
      "straggler.pause_at_ms", "pause: start of the pause",
      [](auto& s) -> auto& { return s.straggler.pause_at; }));
  keys.push_back(time_key(
      "straggler.pause_for_ms", "pause: length of the pause",
      [](auto& s) -> auto& { return s.straggler.pause_for; }));
  keys.push_back(number_key(
      "straggler.background_share", kBackgroundShareMin, 1,
      "background-flow: share of the rate of the worker's link",
      [](auto& s) -> auto& { return s.straggler.background_share; }));
  keys.push_back(text_key(
      "straggler.trace", "trace: CSV file of delays (docs/experiments.md)",
      [](auto& s) -> auto& { return s.straggler.trace; }));
}

void add_pfe_keys(Keys& keys) {
  keys.push_back(uint_key(
      "pfe.generation", 1, 6, "generation of Trio's chipset",
      [](auto& s) -> auto& { return s.pfe.generation; }));
  keys.push_back(enum_key(
      "pfe.fidelity",
      "exact: one event per memory request; burst: a thread reserves the banks' time at once "
      "(faster)",
      {{"burst", engine::Fidelity::kBurst}, {"exact", engine::Fidelity::kExact}},
      [](auto& s) -> auto& { return s.pfe.fidelity; }));
  keys.push_back(list_key(
      "pfe.override", "model parameters: name=number, separated by commas",
      [](auto& s) -> auto& { return s.pfe.overrides; }, show_overrides, parse_overrides));
}

void add_switchml_keys(Keys& keys) {
  keys.push_back(ordered_key(
      "switchml.preset", "SwitchML's workers as in the paper or in its code",
      {std::begin(host::kSwitchmlPresetNames), std::end(host::kSwitchmlPresetNames)},
      [](auto& s) -> auto& { return s.switchml.preset; }));
  keys.push_back(uint_key(
      "switchml.pool", 0, 16'384, "slots, which are the window; 0: the preset's",
      [](auto& s) -> auto& { return s.switchml.pool; }));
  keys.push_back(time_key(
      "switchml.timeout_ms", "retransmission timeout; 0: the preset's",
      [](auto& s) -> auto& { return s.switchml.timeout; }));
}

void add_aggregators_keys(Keys& keys) {
  keys.push_back(flag_key(
      "aggregators.colocated",
      "sharded: an aggregator on each worker's machine, with cores of its own",
      [](auto& s) -> auto& { return s.aggregators.colocated; }));
  keys.push_back(uint_key(
      "aggregators.spare", 0, 256, "sharded: number of machines that only aggregate",
      [](auto& s) -> auto& { return s.aggregators.spare; }));
}

void add_timeline_keys(Keys& keys) {
  keys.push_back(text_key(
      "timeline.link", "count this link's packets over time; empty: none",
      [](auto& s) -> auto& { return s.timeline.link; }));
  keys.push_back(time_key("timeline.bin_ms", "width of a bin",
                          [](auto& s) -> auto& { return s.timeline.bin; },
                          {.min = microseconds(1)}));
}

}  // namespace

Result<std::vector<Scenario::Capture>> parse_captures(const std::string& text) {
  std::vector<Scenario::Capture> captures;
  for (const std::string& item : items_of(text)) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
      return failure("is not a list of captures; allowed: link=file, separated by commas");
    }
    captures.push_back({.link = item.substr(0, equals), .path = item.substr(equals + 1)});
  }
  return captures;
}

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
    add_aggregators_keys(keys);
    add_timeline_keys(keys);
    return keys;
  }();
  return table;
}

}  // namespace tributary::lab
