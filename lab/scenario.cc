// SPDX-License-Identifier: Apache-2.0
#include "lab/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "lab/backends/backend.h"
#include "lab/backends/trio_node.h"
#include "lab/workload/dnn_shape.h"
#include "lab/workload/straggler.h"
#include "memory/shared_memory.h"

namespace tributary::lab {
namespace {

constexpr char kCustomModel[] = "custom";

tl::unexpected<Error> refused(const std::string& key, const std::string& value,
                              const std::string& allowed) {
  return failure(fmt::format("{}={} is not allowed; allowed: {}", key, value, allowed));
}

Result<void> check_range(const char* key, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return {};
  return refused(key, std::to_string(value), fmt::format("{} to {}", low, high));
}

Result<void> check_name(const char* key, const std::string& name,
                        const std::vector<Choice>& choices) {
  std::vector<std::string> names;
  for (const Choice& choice : choices) {
    if (choice.name == name) return {};
    names.push_back(choice.name);
  }
  return refused(key, fmt::format("'{}'", name), fmt::format("{}", fmt::join(names, ", ")));
}

Result<void> check_names(const Scenario& scenario) {
  for (const auto& checked :
       {check_name("backend", scenario.backend, backends()),
        check_name("model.name", scenario.model.name, models()),
        check_name("straggler.pattern", scenario.straggler.pattern, straggler_patterns())}) {
    if (!checked) return checked;
  }
  if (scenario.pfe.fidelity != "burst" && scenario.pfe.fidelity != "exact") {
    return refused("pfe.fidelity", "'" + scenario.pfe.fidelity + "'", "burst, exact");
  }
  return {};
}

Result<void> check_model(const Scenario& scenario) {
  const auto& bytes = scenario.model.bucket_bytes;
  if (scenario.model.name == kCustomModel && bytes.empty()) {
    return refused("model.bucket_bytes", "[]", "at least one bucket of a custom model");
  }
  if (std::find(bytes.begin(), bytes.end(), 0) != bytes.end()) {
    return refused("model.bucket_bytes", "0", "at least 1 byte a bucket");
  }
  for (const auto& [key, value] : {std::pair{"model.forward_ms", scenario.model.forward},
                                   {"model.backward_ms", scenario.model.backward},
                                   {"host.packet_cost_ns", scenario.host.packet_cost},
                                   {"host.gradients_cost_ns", scenario.host.gradients_cost}}) {
    if (value < Duration()) return refused(key, "below 0", "0 or more");
  }
  return {};
}

Result<void> check_sizes(const Scenario& scenario) {
  for (const auto& checked :
       {check_range("workers", scenario.workers, 1, wire::kSourcesMax),
        check_range("iterations", scenario.iterations, 1, UINT32_MAX),
        check_range("gradients", scenario.gradients, 1, trio_ml::kBlockGradLimit),
        check_range("window", scenario.window, 1, trio_ml::kBlockCntLimit),
        check_range("train", scenario.train, 1, scenario.window),
        check_range("leaves", scenario.leaves, 1, wire::kSourcesMax),
        check_range("spines", scenario.spines, 1, wire::kSourcesMax),
        check_range("mitigation.history", scenario.mitigation.history, 1, trio_ml::kHistoryLimit),
        check_range("host.nic_gbps", scenario.host.nic_bits_per_s, 1, UINT64_MAX)}) {
    if (!checked) return checked;
  }
  if (!std::has_single_bit(scenario.window)) {
    return refused("window", std::to_string(scenario.window), "a power of two up to 65536");
  }
  if (!std::has_single_bit(scenario.train)) {
    return refused("train", std::to_string(scenario.train), "a power of two up to the window");
  }
  if (scenario.timeline.bin < microseconds(1)) {
    return refused("timeline.bin_ms", "below 0.001", "0.001 or more");
  }
  if (scenario.host.deadline <= Duration()) {
    return refused("host.deadline_s", "0", "more than 0");
  }
  return {};
}

Result<void> check_shape(const Scenario& scenario, const BackendKind& backend) {
  if (scenario.topology == Topology::kFile && scenario.topology_file.empty()) {
    return refused("topology_file", "''", "the path of a file, with topology=file");
  }
  const bool has_leaves = is_tree(scenario, backend) || scenario.topology == Topology::kLeafSpine;
  if (!has_leaves || scenario.workers % scenario.leaves == 0) return {};
  return refused("leaves", std::to_string(scenario.leaves),
                 fmt::format("a number that divides workers={}", scenario.workers));
}

Result<void> check_links(const Scenario& scenario) {
  for (const auto& [key, link] :
       {std::pair{"link", &scenario.link}, std::pair{"fabric", &scenario.fabric}}) {
    if (auto good = net::check(*link); !good) {
      return failure(fmt::format("{}: {}", key, good.error().text));
    }
    const net::LinkFaults& faults = link->faults;
    const bool loses = faults.loss > 0 || faults.corrupt > 0;
    if (loses && !scenario.host.retransmission) {
      return refused("host.retransmission", "false",
                     fmt::format("true where {}.loss or {}.corrupt is above 0", key, key));
    }
  }
  return {};
}

Result<void> check_backend(const Scenario& scenario, const BackendKind& backend) {
  if (!backend.elides && scenario.payload == Payload::kElided) {
    return refused("payload", "elided", fmt::format("real, with backend={}", scenario.backend));
  }
  if (!backend.trains && scenario.train > 1) {
    return refused("train", std::to_string(scenario.train),
                   fmt::format("1, with backend={}", scenario.backend));
  }
  if (scenario.payload == Payload::kReal && scenario.train > 1) {
    return refused("train", std::to_string(scenario.train), "1, with payload=real");
  }
  return backend.check != nullptr ? backend.check(scenario, backend) : Result<void>();
}

Result<void> check_straggler(const Scenario& scenario, const BackendKind& backend) {
  const StragglerSettings& straggler = scenario.straggler;
  const StragglerKind* kind = find_straggler_kind(straggler.pattern);
  if (kind->needs_mitigation && backend.straggles && !backend.mitigates) {
    return refused("straggler.pattern", straggler.pattern,
                   "with a back end that gives stragglers up");
  }
  if (straggler.worker >= scenario.workers) {
    return refused("straggler.worker", std::to_string(straggler.worker),
                   fmt::format("0 to {}", scenario.workers - 1));
  }
  const auto within = [](double value, double low, double high) {
    return value >= low && value <= high;
  };
  constexpr double kFactorMax = 1000;
  if (!within(straggler.probability, 0, 1)) {
    return refused("straggler.probability", fmt::format("{}", straggler.probability), "0 to 1");
  }
  if (!within(straggler.factor, 1, kFactorMax)) {
    return refused("straggler.factor", fmt::format("{}", straggler.factor), "1 to 1000");
  }
  if (!within(straggler.p99_over_p50, 1, kFactorMax)) {
    return refused("straggler.p99_over_p50", fmt::format("{}", straggler.p99_over_p50),
                   "1 to 1000");
  }
  if (straggler.pattern == "background-flow" &&
      !(straggler.background_share > 0 && straggler.background_share <= 1)) {
    return refused("straggler.background_share", fmt::format("{}", straggler.background_share),
                   "above 0, up to 1");
  }
  return {};
}

Result<void> check_pfe(const Scenario& scenario) {
  const auto parameters = parameters_of(scenario.pfe);
  if (!parameters) return failure("pfe: " + parameters.error().text);
  return check_range("train", scenario.train, 1, parameters->thread_count());
}

/// What the aggregator's job needs, against the memory that a PFE has.
Result<void> check_memory(const Scenario& scenario, const BackendKind& backend) {
  if (backend.switchml != nullptr) return {};  // Its slots are its own check's.
  Scenario unscaled = scenario;
  unscaled.train = 1;
  const trio_ml::JobConfig job = job_of(unscaled, backend);
  if (job.block_cnt_max > trio_ml::kBlockCntLimit) {
    return refused(
        "window", std::to_string(scenario.window),
        fmt::format("up to {} without host.retransmission", trio_ml::kBlockCntLimit / 2));
  }
  if (const auto good = trio_ml::check(job); !good) return good;
  const uint64_t needed = trio_ml::memory_bytes(job, 1);
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
    all.push_back({kCustomModel, "model.bucket_bytes and the times given beside them"});
    return all;
  }();
  return choices;
}

Result<void> check(const Scenario& scenario) {
  if (auto good = check_names(scenario); !good) return good;
  if (auto good = check_sizes(scenario); !good) return good;
  const BackendKind& backend = *find_backend_kind(scenario.backend);
  for (const auto& checked :
       {check_model(scenario), check_shape(scenario, backend), check_links(scenario),
        check_backend(scenario, backend), check_straggler(scenario, backend), check_pfe(scenario),
        check_memory(scenario, backend)}) {
    if (!checked) return checked;
  }
  return {};
}

}  // namespace tributary::lab
