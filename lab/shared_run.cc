// SPDX-License-Identifier: Apache-2.0
#include "lab/shared_run.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/cluster/cluster.h"
#include "lab/run.h"

namespace tributary::lab {
namespace {

/// Calls `run(i)` for each i below `count`, on several threads.
template <class F>
void run_all(size_t count, uint32_t threads, F&& run) {
  // oneTBB starts no more threads than there are cores unless this limit is raised.
  std::optional<tbb::global_control> allowed;
  if (threads > 0) {
    allowed.emplace(tbb::global_control::max_allowed_parallelism, size_t{threads});
  }
  tbb::task_arena arena(threads > 0 ? static_cast<int>(threads) : tbb::task_arena::automatic);
  arena.execute([&] {
    tbb::parallel_for(
        size_t{0}, count, [&](size_t i) { run(i); }, tbb::simple_partitioner());
  });
}

Result<Duration> mean_iteration(const SharedScenario& scenario, Duration typical) {
  auto cluster = Cluster::create(scenario, {&typical, 1});
  if (!cluster) return tl::unexpected(cluster.error());
  const auto result = (*cluster)->run_shared();
  if (!result) return tl::unexpected(result.error());
  return result->jobs[0].run.mean_iteration;
}

/// Returns the network with one of its jobs. Its captures belong to the run of all jobs.
SharedScenario with_one_job(const SharedScenario& scenario, size_t job) {
  SharedScenario one = scenario.alone(job);
  one.network.captures.clear();
  one.network.timeline = {};
  one.jobs[0].start = Duration();
  return one;
}

/// Returns the unit of a job's delays: given, or measured by a short run without stragglers, alone.
Result<Duration> typical_iteration(const SharedScenario& scenario, size_t job) {
  SharedScenario one = with_one_job(scenario, job);
  Scenario& own = one.jobs[0].scenario;
  if (!needs_typical_iteration(own)) return Duration();
  if (own.straggler.typical_iteration != Duration()) return own.straggler.typical_iteration;
  own = calm_scenario(own);
  return mean_iteration(one, Duration());
}

}  // namespace

Result<SharedResult> run_shared(const SharedScenario& scenario, const SharedRunOptions& options) {
  if (const auto allowed = check(scenario); !allowed) return tl::unexpected(allowed.error());
  const size_t count = scenario.jobs.size();
  std::vector<Result<Duration>> typical(count);
  run_all(count, options.threads, [&](size_t i) { typical[i] = typical_iteration(scenario, i); });
  std::vector<Duration> units;
  for (const Result<Duration>& unit : typical) {
    if (!unit) return tl::unexpected(unit.error());
    units.push_back(*unit);
  }

  // The run of all jobs is the last one: the others end meanwhile.
  Result<SharedResult> result = failure("not run");
  std::vector<Result<Duration>> means(count);
  const size_t before = options.alone ? count : 0;
  run_all(before + 1, options.threads, [&](size_t i) {
    if (i < before) {
      means[i] = mean_iteration(with_one_job(scenario, i), units[i]);
      return;
    }
    auto cluster = Cluster::create(scenario, units);
    if (!cluster) {
      result = tl::unexpected(cluster.error());
      return;
    }
    result = (*cluster)->run_shared(options.observer);
  });
  if (!result) return result;
  for (size_t i = 0; i < count; i++) {
    result->jobs[i].hosts = scenario.jobs[i].hosts;
    if (!options.alone) continue;
    if (!means[i]) {
      return failure(
          fmt::format("job '{}' alone: {}", scenario.jobs[i].name, means[i].error().text));
    }
    result->jobs[i].alone = *means[i];
  }
  return result;
}

}  // namespace tributary::lab
