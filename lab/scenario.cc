// SPDX-License-Identifier: Apache-2.0
#include "lab/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "lab/backends/backend.h"
#include "lab/backends/trio_node.h"
#include "lab/result.h"
#include "lab/scenario_file.h"
#include "lab/train_limits.h"
#include "lab/workload/dnn_shape.h"
#include "lab/workload/straggler.h"
#include "memory/shared_memory.h"

namespace tributary::lab {
namespace {

constexpr char kCustomDescription[] = "model.bucket_bytes and the times given beside them";

using Checked = std::optional<Refusal>;

Refusal refused(const std::string& key, const std::string& value, const std::string& allowed) {
  return {.key = key,
          .text = fmt::format("{}={} is not allowed; allowed: {}", key, value, allowed)};
}

/// Refuses the first value that is outside its key's range.
Checked check_ranges(const Scenario& scenario) {
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.allows(scenario)) continue;
    return refused(std::string(key.spec.name), key.show(scenario), allowed_values(key));
  }
  return {};
}

Checked check_model(const Scenario& scenario) {
  const auto& bytes = scenario.model.bucket_bytes;
  if (scenario.model.kind == Model::kCustom && bytes.empty()) {
    return refused("model.bucket_bytes", "[]", "at least one bucket of a custom model");
  }
  if (std::find(bytes.begin(), bytes.end(), 0) != bytes.end()) {
    return refused("model.bucket_bytes", "0", "at least 1 byte a bucket");
  }
  return {};
}

/// The forward pass of a bucket's layers has no part of the input pipeline and of copies.
Checked check_iteration_parts(const ModelSettings& model) {
  if (!model.overlap_forward || (model.input == Duration() && model.staging_gbps == 0)) return {};
  return refused("model.overlap_forward", "true",
                 "false, with model.input_ms or model.staging_gbps");
}

/// Refuses local steps that the last iteration would cut short, and their use with anything that
/// needs an exchange in each iteration.
Checked check_local_steps(const Scenario& scenario, const BackendKind& backend) {
  const uint32_t steps = scenario.model.local_steps;
  if (steps == 1) return {};
  const std::string value = std::to_string(steps);
  if (backend.asynchronous) {
    return refused("model.local_steps", value,
                   fmt::format("1, with backend={}", backend.choice.name));
  }
  if (scenario.model.overlap_forward) {
    return refused("model.local_steps", value, "1, with model.overlap_forward=true");
  }
  if (scenario.iterations % steps == 0) return {};
  return refused("model.local_steps", value,
                 fmt::format("a number that divides iterations={}", scenario.iterations));
}

Checked check_train(const Scenario& scenario, uint32_t max) {
  if (scenario.train <= max) return {};
  return refused("train", std::to_string(scenario.train), fmt::format("1 to {}", max));
}

Checked check_sizes(const Scenario& scenario) {
  if (!std::has_single_bit(scenario.window)) {
    return refused("window", std::to_string(scenario.window), "a power of two up to 65536");
  }
  if (auto refusal = check_train(scenario, scenario.window)) return refusal;
  if (!std::has_single_bit(scenario.train)) {
    return refused("train", std::to_string(scenario.train), "a power of two up to the window");
  }
  if (scenario.host.deadline == Duration()) {
    return refused("host.deadline_s", "0", "more than 0");
  }
  return {};
}

/// Refuses a tree of aggregators with a back end that cannot be one.
Checked check_tree(const Scenario& scenario, const BackendKind& backend) {
  const bool wants_tree =
      scenario.topology == Topology::kChassis || scenario.topology == Topology::kTwoLevel;
  if (!wants_tree || backend.hierarchical) return {};
  std::vector<std::string> trees;
  for (const BackendKind& kind : backend_kinds()) {
    if (kind.hierarchical) trees.push_back(kind.choice.name);
  }
  return refused("topology", find_scenario_key("topology")->show(scenario),
                 fmt::format("{} with backend={}; chassis and two-level with {}",
                             backend.own_ports ? "star or file" : "star, leaf-spine or file",
                             backend.choice.name, fmt::join(trees, ", ")));
}

Checked check_shape(const Scenario& scenario, const BackendKind& backend) {
  if (scenario.topology == Topology::kFile && scenario.topology_file.empty()) {
    return refused("topology_file", "''", "the path of a file, with topology=file");
  }
  if (auto refusal = check_tree(scenario, backend)) return refusal;
  const bool has_leaves = is_tree(scenario, backend) || scenario.topology == Topology::kLeafSpine;
  if (!has_leaves || scenario.workers % scenario.leaves == 0) return {};
  return refused("leaves", std::to_string(scenario.leaves),
                 fmt::format("a number that divides workers={}", scenario.workers));
}

Checked check_links(const Scenario& scenario, const BackendKind& backend) {
  const bool of_scenario = scenario.topology != Topology::kFile;  // A file has rates of its own.
  const bool has_fabric = is_tree(scenario, backend) || scenario.topology == Topology::kLeafSpine;
  for (const auto& [key, link, has_effect] :
       {std::tuple{"link", &scenario.link, of_scenario},
        std::tuple{"fabric", &scenario.fabric, of_scenario && has_fabric}}) {
    if (const auto good = net::check(*link); !good) {
      return Refusal{.key = "", .text = fmt::format("{}: {}", key, good.error().text)};
    }
    const net::LinkFaults& faults = link->faults;
    const bool loses = has_effect && (faults.loss > 0 || faults.corrupt > 0);
    if (loses && !scenario.host.retransmission) {
      return refused("host.retransmission", "false",
                     fmt::format("true where {}.loss or {}.corrupt is above 0", key, key));
    }
  }
  return {};
}

/// Refuses slow links of workers that do not exist, or that would be faster than the others.
Checked check_slow_links(const Scenario& scenario) {
  const SlowLinks& slow = scenario.slow_links;
  if (slow.workers.empty()) return {};
  if (scenario.topology == Topology::kFile) {
    return refused("link.slow_workers", fmt::format("{}", fmt::join(slow.workers, ",")),
                   "none with topology=file, which sets each cable's rate");
  }
  for (const uint32_t worker : slow.workers) {
    if (worker < scenario.workers) continue;
    return refused("link.slow_workers", std::to_string(worker),
                   fmt::format("0 to {}", scenario.workers - 1));
  }
  if (slow.rate_bits_per_s <= scenario.link.rate_bits_per_s) return {};
  constexpr double kGbit = 1e9;
  return refused("link.slow_rate_gbps",
                 fmt::format("{}", static_cast<double>(slow.rate_bits_per_s) / kGbit),
                 fmt::format("up to link.rate_gbps={}",
                             static_cast<double>(scenario.link.rate_bits_per_s) / kGbit));
}

/// Refuses slow uplinks where there are none, or that would be faster than the others.
Checked check_slow_uplinks(const Scenario& scenario, const BackendKind& backend) {
  const SlowUplinks& slow = scenario.slow_uplinks;
  if (slow.racks.empty()) return {};
  const std::string racks = fmt::format("{}", fmt::join(slow.racks, ","));
  if (!is_tree(scenario, backend) && scenario.topology != Topology::kLeafSpine) {
    return refused("fabric.slow_racks", racks,
                   "none without uplinks: topology chassis, two-level or leaf-spine");
  }
  for (const uint32_t rack : slow.racks) {
    if (rack < scenario.leaves) continue;
    return refused("fabric.slow_racks", std::to_string(rack),
                   fmt::format("0 to {}", scenario.leaves - 1));
  }
  if (slow.rate_bits_per_s <= scenario.fabric.rate_bits_per_s) return {};
  constexpr double kGbit = 1e9;
  return refused("fabric.slow_rate_gbps",
                 fmt::format("{}", static_cast<double>(slow.rate_bits_per_s) / kGbit),
                 fmt::format("up to fabric.rate_gbps={}",
                             static_cast<double>(scenario.fabric.rate_bits_per_s) / kGbit));
}

/// Refuses more workers than a message can name, unless leaves of a tree name their own, or no
/// message names any.
Checked check_scale(const Scenario& scenario, const BackendKind& backend) {
  if (scenario.workers <= wire::kSourcesMax) return {};
  const std::string value = std::to_string(scenario.workers);
  if (backend.placement != Placement::kWorkers) {
    if (!backend.hierarchical || !backend.elides) {
      return refused(
          "workers", value,
          fmt::format("1 to {} with backend={}; more with trio-ml, trio-ml-wait and ring",
                      wire::kSourcesMax, backend.choice.name));
    }
    const bool tree = is_tree(scenario, backend);
    if (!tree && scenario.topology != Topology::kFile) {
      return refused(
          "workers", value,
          fmt::format("1 to {} at one aggregator; more with topology=two-level or chassis",
                      wire::kSourcesMax));
    }
    if (tree && scenario.workers / scenario.leaves > wire::kSourcesMax) {
      return refused("leaves", std::to_string(scenario.leaves),
                     fmt::format("at least {}, for up to {} workers each",
                                 (scenario.workers + wire::kSourcesMax - 1) / wire::kSourcesMax,
                                 wire::kSourcesMax));
    }
  }
  if (scenario.payload == Payload::kElided) return {};
  return refused("payload", "real",
                 fmt::format("elided, with more than {} workers: results do not "
                             "name all ranks",
                             wire::kSourcesMax));
}

/// Refuses congestion control with workers that have no window to shrink.
Checked check_congestion(const Scenario& scenario, const BackendKind& backend) {
  if (scenario.host.congestion == host::CongestionControl::kNone) return {};
  const std::string value = host::name_of(scenario.host.congestion);
  const bool has_window = backend.switchml == nullptr && !backend.asynchronous &&
                          backend.placement != Placement::kWorkers;
  if (!has_window) {
    return refused("host.congestion", value,
                   fmt::format("none, with backend={}", backend.choice.name));
  }
  if (scenario.host.priorities == 1) return {};
  return refused("host.congestion", value, "none, with host.priorities above 1");
}

Checked check_backend(const Scenario& scenario, const BackendKind& backend) {
  if (!backend.elides && scenario.payload == Payload::kElided) {
    return refused("payload", "elided", fmt::format("real, with backend={}", backend.choice.name));
  }
  if (!backend.trains && scenario.train > 1) {
    return refused("train", std::to_string(scenario.train),
                   fmt::format("1, with backend={}", backend.choice.name));
  }
  if (!backend.prioritises() && scenario.host.priorities > 1) {
    return refused("host.priorities", std::to_string(scenario.host.priorities),
                   fmt::format("1, with backend={}", backend.choice.name));
  }
  if (scenario.payload == Payload::kReal && scenario.train > 1) {
    return refused("train", std::to_string(scenario.train), "1, with payload=real");
  }
  return backend.check != nullptr ? backend.check(scenario, backend) : std::nullopt;
}

Checked check_quorum(const Scenario& scenario, const BackendKind& backend) {
  const uint32_t quorum = scenario.mitigation.quorum;
  if (quorum == 0) return {};
  if (!backend.takes_quorum) {
    return refused("mitigation.quorum", std::to_string(quorum),
                   fmt::format("0, with backend={}", backend.choice.name));
  }
  if (quorum <= scenario.workers) return {};
  return refused("mitigation.quorum", std::to_string(quorum),
                 fmt::format("0 to {}, the number of workers", scenario.workers));
}

/// Refuses workers and racks that the scenario does not have.
Checked check_named_workers(const Scenario& scenario) {
  const StragglerSettings& straggler = scenario.straggler;
  const std::string ranks = fmt::format("0 to {}", scenario.workers - 1);
  if (straggler.worker >= scenario.workers) {
    return refused("straggler.worker", std::to_string(straggler.worker), ranks);
  }
  for (const uint32_t worker : straggler.workers) {
    if (worker < scenario.workers) continue;
    return refused("straggler.workers", std::to_string(worker), ranks);
  }
  if (straggler.racks.empty()) return {};
  const std::string racks = fmt::format("{}", fmt::join(straggler.racks, ","));
  if (scenario.topology == Topology::kStar || scenario.topology == Topology::kFile) {
    return refused("straggler.racks", racks, "topology chassis, two-level or leaf-spine");
  }
  if (scenario.workers % scenario.leaves != 0) {
    return refused("leaves", std::to_string(scenario.leaves),
                   fmt::format("a number that divides workers={}", scenario.workers));
  }
  if (std::any_of(straggler.racks.begin(), straggler.racks.end(),
                  [&](uint32_t rack) { return rack >= scenario.leaves; })) {
    return refused("straggler.racks", racks, fmt::format("0 to {}", scenario.leaves - 1));
  }
  return {};
}

/// Refuses a run without workers, and a quorum that waits for an absent worker.
Checked check_absent(const Scenario& scenario) {
  if (!scenario.straggler.pattern.contains(Straggling::kAbsent)) return {};
  const uint32_t quorum = scenario.mitigation.quorum;
  const size_t present = scenario.workers - certain_workers(scenario).size();
  if (present == 0) {
    return refused("straggler.pattern", "absent for all workers", "at least one that takes part");
  }
  if (quorum <= present) return {};
  return refused(
      "mitigation.quorum", std::to_string(quorum),
      fmt::format("up to {}, the workers that straggler.pattern=absent leaves", present));
}

Checked check_straggler(const Scenario& scenario, const BackendKind& backend) {
  const StragglerSettings& straggler = scenario.straggler;
  for (const StragglerKind* kind : kinds_in(straggler.pattern)) {
    if (kind->needs_mitigation && backend.straggles && !leaves_out_late(scenario, backend)) {
      return refused("straggler.pattern", kind->choice.name,
                     "with a back end that gives stragglers up");
    }
  }
  if (auto refusal = check_named_workers(scenario)) return refusal;
  if (auto refusal = check_absent(scenario)) return refusal;
  if (straggler.pattern.contains(Straggling::kTrace) && straggler.trace.empty()) {
    return refused("straggler.trace", "''", "the path of a file, with straggler.pattern=trace");
  }
  return {};
}

Checked check_pfe(const Scenario& scenario) {
  const auto parameters = parameters_of(scenario.pfe, scenario.train);
  if (!parameters) return Refusal{.key = "", .text = "pfe: " + parameters.error().text};
  return check_train(scenario,
                     std::min(parameters->thread_count(), parameters->packet_buffer_packets));
}

/// Refuses a window that needs more memory than a PFE has.
Checked check_memory(const Scenario& scenario, const BackendKind& backend) {
  if (backend.switchml != nullptr) return {};  // The back end checks its slots.
  Scenario unscaled = scenario;
  unscaled.train = 1;
  unscaled.workers = std::min(unscaled.workers, wire::kSourcesMax);  // Of one aggregator.
  const trio_ml::JobConfig job = job_of(unscaled, backend);
  if (job.timeout < trio_ml::kTimeoutRange.min) {
    return refused("mitigation.timeout_ms", fmt::format("{}", as_ms(job.timeout)),
                   fmt::format("{} to {} with backend={}", as_ms(trio_ml::kTimeoutRange.min),
                               as_ms(trio_ml::kTimeoutRange.max), backend.choice.name));
  }
  if (job.block_cnt_max > trio_ml::kBlockCntLimit) {
    return refused(
        "window", std::to_string(scenario.window),
        fmt::format("up to {} without host.retransmission", trio_ml::kBlockCntLimit / 2));
  }
  if (const auto good = trio_ml::check(job); !good) {
    return Refusal{.key = "", .text = good.error().text};
  }
  const uint64_t needed = trio_ml::memory_bytes(job, 1) * job.channels;
  const uint64_t available = memory::SharedMemory::Config().dram_size_bytes;
  if (needed <= available) return {};
  constexpr double kGib = 1 << 30;
  return refused("window", std::to_string(scenario.window),
                 fmt::format("with gradients={} and mitigation.history={} a window that fits into "
                             "{:.0f} GiB of memory, not {:.1f} GiB",
                             scenario.gradients, job.history, static_cast<double>(available) / kGib,
                             static_cast<double>(needed) / kGib));
}

template <class T>
std::vector<Choice> choices_of(const std::vector<T>& kinds) {
  std::vector<Choice> choices;
  for (const T& kind : kinds) choices.push_back(kind.choice);
  return choices;
}

}  // namespace

const std::vector<Choice>& backends() {
  static const std::vector<Choice> choices = choices_of(backend_kinds());
  return choices;
}

const std::vector<Choice>& straggler_patterns() {
  static const std::vector<Choice> choices = choices_of(straggler_kinds());
  return choices;
}

const std::vector<Choice>& models() {
  static const std::vector<Choice> choices = [] {
    std::vector<Choice> all;
    for (const DnnShape& shape : dnn_shapes()) all.push_back({shape.name, shape.description});
    all.push_back({"custom", kCustomDescription});
    return all;
  }();
  return choices;
}

const std::string& name_of(Backend backend) {
  return backends().at(static_cast<size_t>(backend)).name;
}
const std::string& name_of(Model model) { return models().at(static_cast<size_t>(model)).name; }
const std::string& name_of(Straggling pattern) {
  return straggler_patterns().at(static_cast<size_t>(pattern)).name;
}

bool Scenario::is_slow_link(uint32_t rank) const {
  const auto& slow = slow_links.workers;
  return std::find(slow.begin(), slow.end(), rank) != slow.end();
}

std::optional<Refusal> find_refusal(const Scenario& scenario) {
  if (auto refusal = check_ranges(scenario)) return refusal;
  if (auto refusal = check_sizes(scenario)) return refusal;
  const BackendKind& backend = backend_kind(scenario.backend);
  for (auto& refusal :
       {check_model(scenario), check_shape(scenario, backend), check_links(scenario, backend),
        check_iteration_parts(scenario.model), check_slow_links(scenario),
        check_slow_uplinks(scenario, backend), check_scale(scenario, backend),
        check_congestion(scenario, backend), check_local_steps(scenario, backend),
        check_backend(scenario, backend), check_queues(scenario, backend),
        check_marks(scenario, backend), check_quorum(scenario, backend),
        check_straggler(scenario, backend), check_pfe(scenario), check_memory(scenario, backend)}) {
    if (refusal) return refusal;
  }
  return std::nullopt;
}

Result<void> check(const Scenario& scenario) {
  if (auto refusal = find_refusal(scenario)) return failure(std::move(refusal->text));
  return {};
}

}  // namespace tributary::lab
