// SPDX-License-Identifier: Apache-2.0
#include "lab/run.h"

#include <algorithm>

#include "lab/cluster/cluster.h"

namespace tributary::lab {
namespace {

/// Iterations of the short run that measures the typical one. Without stragglers all but the first
/// are equal.
constexpr uint32_t kTypicalIterations = 3;

/// Returns the unit of the pattern's delays: given, or measured by a short run without stragglers.
Result<Duration> typical_iteration(const Scenario& scenario) {
  const auto kinds = kinds_in(scenario.straggler.pattern);
  const bool needed = std::any_of(kinds.begin(), kinds.end(), [](const StragglerKind* kind) {
    return kind->needs_typical_iteration;
  });
  if (!needed || !backend_kind(scenario.backend).straggles) return Duration();
  if (scenario.straggler.typical_iteration != Duration()) {
    return scenario.straggler.typical_iteration;
  }
  Scenario calm = scenario;
  calm.straggler.pattern = Straggling::kNone;
  calm.iterations = kTypicalIterations * calm.model.local_steps;
  calm.captures.clear();
  auto cluster = Cluster::create(calm, Duration(), nullptr);
  if (!cluster) return tl::unexpected(cluster.error());
  const auto result = (*cluster)->run();
  if (!result) return tl::unexpected(result.error());
  return result->mean_iteration;
}

}  // namespace

Result<RunResult> run_scenario(const Scenario& scenario, TensorExchange* tensors,
                               RunObserver* observer) {
  if (const auto allowed = check(scenario); !allowed) return tl::unexpected(allowed.error());
  const auto typical = typical_iteration(scenario);
  if (!typical) return tl::unexpected(typical.error());
  auto cluster = Cluster::create(scenario, *typical, tensors);
  if (!cluster) return tl::unexpected(cluster.error());
  return (*cluster)->run(observer);
}

}  // namespace tributary::lab
