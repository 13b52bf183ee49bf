// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/model_digest.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <span>

#include "base/fnv.h"
#include "engine/model/parameters.h"
#include "lab/backends/backend.h"
#include "lab/run.h"
#include "lab/scenario_file.h"
#include "lab/workload/ddp_workload.h"

namespace tributary::lab {
namespace {

/// Long enough to make the slots wide that count the banks' time (engine/model/slot_ledger.h).
constexpr uint32_t kLongTrain = 64;

/// Adds every generation of the PFE.
void add_parameters(std::string& text) {
  for (uint32_t generation = 1;; generation++) {
    const Result<engine::Parameters> parameters = engine::preset(generation);
    if (!parameters) return;
    for (const engine::ParameterRow& row : engine::parameter_rows(*parameters)) {
      fmt::format_to(std::back_inserter(text), "{}={}\n", row.name, row.value);
    }
  }
}

/// Adds the buckets and the computation of every network.
void add_workloads(std::string& text) {
  const auto out = std::back_inserter(text);
  for (size_t i = 0; i < models().size(); i++) {
    Scenario scenario;
    scenario.model.kind = static_cast<Model>(i);
    if (scenario.model.kind == Model::kCustom) continue;
    const Workload workload = workload_of(scenario);
    fmt::format_to(out, "{} {}\n", as_ns(workload.forward), as_ns(workload.backward));
    for (const Bucket& bucket : workload.buckets) {
      fmt::format_to(out, "{} {}\n", bucket.elements, as_ns(bucket.ready_at));
    }
  }
}

/// Adds the uses of every aggregator. Six digits hide rounding that differs between compilers.
void add_parts(const RunResult& run, std::string& text) {
  for (const AggregatorResult& aggregator : run.aggregators) {
    for (const AggregatorResult::Part& part : aggregator.parts) {
      fmt::format_to(std::back_inserter(text), "{}={:.6g}\n", part.name, part.value);
    }
  }
}

/// Adds a run of each back end with stragglers. @param train Packets of a train.
void add_runs(Straggling pattern, uint32_t train, std::string& text) {
  for (const BackendKind& kind : backend_kinds()) {
    if (train > 1 && !kind.trains) continue;
    if (pattern == Straggling::kAbsent && !kind.mitigates) continue;  // It would never end.
    Scenario scenario;
    scenario.backend = kind.id;
    scenario.workers = 3;
    scenario.iterations = 3;
    scenario.train = train;
    scenario.window = 16 * train;
    scenario.payload = kind.elides ? Payload::kElided : Payload::kReal;
    scenario.model.kind = Model::kCustom;
    scenario.model.bucket_bytes = {100'000};
    scenario.model.backward = milliseconds(1);
    scenario.straggler.pattern = pattern;
    scenario.straggler.probability = 0.5;
    scenario.mitigation.timeout = milliseconds(1);
    const Result<RunResult> run = run_scenario(scenario);
    fmt::format_to(std::back_inserter(text), "{} {}\n", kind.choice.name,
                   run ? fmt::format("{} {} {:016x}", as_ns(run->mean_iteration),
                                     run->degraded_blocks, run->digest)
                       : run.error().text);
    if (run) add_parts(*run, text);
  }
}

std::string digest_of_models() {
  std::string text = scenario_text(Scenario());
  add_parameters(text);
  add_workloads(text);
  add_runs(Straggling::kSlowWorker, 1, text);
  add_runs(Straggling::kSlowWorker, kLongTrain, text);
  add_runs(Straggling::kAbsent, kLongTrain, text);
  return fmt::format("{:016x}", fnv_bytes(kFnvStart, std::as_bytes(std::span(text))));
}

}  // namespace

const std::string& model_digest() {
  static const std::string digest = digest_of_models();
  return digest;
}

}  // namespace tributary::lab
