// SPDX-License-Identifier: Apache-2.0
#include "lab/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "lab/backends/backend.h"
#include "lab/backends/trio_node.h"
#include "lab/scenario_file.h"
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
  if (scenario.mitigation.history > trio_ml::kHistoryLimit) {
    return refused("mitigation.history", std::to_string(scenario.mitigation.history),
                   fmt::format("1 to {}", trio_ml::kHistoryLimit));
  }
  if (scenario.timeline.bin < microseconds(1)) {
    return refused("timeline.bin_ms", "below 0.001", "0.001 or more");
  }
  if (scenario.host.deadline == Duration()) {
    return refused("host.deadline_s", "0", "more than 0");
  }
  return {};
}

Checked check_shape(const Scenario& scenario, const BackendKind& backend) {
  if (scenario.topology == Topology::kFile && scenario.topology_file.empty()) {
    return refused("topology_file", "''", "the path of a file, with topology=file");
  }
  const bool has_leaves = is_tree(scenario, backend) || scenario.topology == Topology::kLeafSpine;
  if (!has_leaves || scenario.workers % scenario.leaves == 0) return {};
  return refused("leaves", std::to_string(scenario.leaves),
                 fmt::format("a number that divides workers={}", scenario.workers));
}

Checked check_links(const Scenario& scenario) {
  for (const auto& [key, link] :
       {std::pair{"link", &scenario.link}, std::pair{"fabric", &scenario.fabric}}) {
    if (const auto good = net::check(*link); !good) {
      return Refusal{.key = "", .text = fmt::format("{}: {}", key, good.error().text)};
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

Checked check_backend(const Scenario& scenario, const BackendKind& backend) {
  if (!backend.elides && scenario.payload == Payload::kElided) {
    return refused("payload", "elided", fmt::format("real, with backend={}", backend.choice.name));
  }
  if (!backend.trains && scenario.train > 1) {
    return refused("train", std::to_string(scenario.train),
                   fmt::format("1, with backend={}", backend.choice.name));
  }
  if (scenario.payload == Payload::kReal && scenario.train > 1) {
    return refused("train", std::to_string(scenario.train), "1, with payload=real");
  }
  return backend.check != nullptr ? backend.check(scenario, backend) : std::nullopt;
}

Checked check_straggler(const Scenario& scenario, const BackendKind& backend) {
  const StragglerSettings& straggler = scenario.straggler;
  const StragglerKind& kind = straggler_kind(straggler.pattern);
  if (kind.needs_mitigation && backend.straggles && !backend.mitigates) {
    return refused("straggler.pattern", kind.choice.name,
                   "with a back end that gives stragglers up");
  }
  if (straggler.worker >= scenario.workers) {
    return refused("straggler.worker", std::to_string(straggler.worker),
                   fmt::format("0 to {}", scenario.workers - 1));
  }
  if (straggler.pattern == Straggling::kBackgroundFlow && straggler.background_share <= 0) {
    return refused("straggler.background_share", fmt::format("{}", straggler.background_share),
                   "above 0, up to 1");
  }
  return {};
}

Checked check_pfe(const Scenario& scenario) {
  const auto parameters = parameters_of(scenario.pfe);
  if (!parameters) return Refusal{.key = "", .text = "pfe: " + parameters.error().text};
  return check_train(scenario, parameters->thread_count());
}

/// Refuses a window that needs more memory than a PFE has.
Checked check_memory(const Scenario& scenario, const BackendKind& backend) {
  if (backend.switchml != nullptr) return {};  // The back end checks its slots.
  Scenario unscaled = scenario;
  unscaled.train = 1;
  const trio_ml::JobConfig job = job_of(unscaled, backend);
  if (job.block_cnt_max > trio_ml::kBlockCntLimit) {
    return refused(
        "window", std::to_string(scenario.window),
        fmt::format("up to {} without host.retransmission", trio_ml::kBlockCntLimit / 2));
  }
  if (const auto good = trio_ml::check(job); !good) {
    return Refusal{.key = "", .text = good.error().text};
  }
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

std::optional<Refusal> find_refusal(const Scenario& scenario) {
  if (auto refusal = check_ranges(scenario)) return refusal;
  if (auto refusal = check_sizes(scenario)) return refusal;
  const BackendKind& backend = backend_kind(scenario.backend);
  for (auto& refusal :
       {check_model(scenario), check_shape(scenario, backend), check_links(scenario),
        check_backend(scenario, backend), check_straggler(scenario, backend), check_pfe(scenario),
        check_memory(scenario, backend)}) {
    if (refusal) return refusal;
  }
  return std::nullopt;
}

Result<void> check(const Scenario& scenario) {
  if (auto refusal = find_refusal(scenario)) return failure(std::move(refusal->text));
  return {};
}

}  // namespace tributary::lab
