// SPDX-License-Identifier: Apache-2.0
#include "lab/run.h"

#include <algorithm>

#include "lab/cluster/cluster.h"

namespace tributary::lab {
namespace {

/// Iterations of the short run that measures the typical one. Without stragglers all but the first
/// are equal.
constexpr uint32_t kTypicalIterations = 3;

}  // namespace

bool needs_typical_iteration(const Scenario& scenario) {
  const auto kinds = kinds_in(scenario.straggler.pattern);
  return backend_kind(scenario.backend).straggles &&
         std::any_of(kinds.begin(), kinds.end(),
                     [](const StragglerKind* kind) { return kind->needs_typical_iteration; });
}

Scenario calm_scenario(const Scenario& scenario) {
  Scenario calm = scenario;
  calm.straggler.pattern = Straggling::kNone;
  calm.iterations = kTypicalIterations * calm.model.local_steps;
  calm.captures.clear();
  return calm;
}

namespace {

/// Returns the short scenario that measures the unit of delays. All back ends have the same one, so
/// that they meet the same delays.
Scenario typical_scenario(const Scenario& scenario) {
  Scenario typical = calm_scenario(scenario);
  // The ideal switch has no such network.
  if (scenario.topology == Topology::kFile || scenario.workers > wire::kSourcesMax) return typical;
  typical.backend = Backend::kIdeal;
  typical.topology = Topology::kStar;
  typical.payload = Payload::kElided;
  typical.mitigation.quorum = 0;
  typical.link.faults = {};
  typical.host.retransmission = false;
  return typical;
}

/// Returns the unit of the pattern's delays: given, or measured.
Result<Duration> typical_iteration(const Scenario& scenario) {
  if (!needs_typical_iteration(scenario)) return Duration();
  if (scenario.straggler.typical_iteration != Duration()) {
    return scenario.straggler.typical_iteration;
  }
  auto cluster = Cluster::create(typical_scenario(scenario), Duration(), nullptr);
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
