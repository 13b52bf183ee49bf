// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs points: over the cores of this machine, over the ranks of an MPI job, or both; keeps what
/// is finished.
///
/// Model:   Each point is one run in virtual time, on one thread, that shares nothing with others.
/// So
///          the outcomes do not depend on threads, ranks or interruptions: they are put together in
///          the order of the points.
///          Rank r of n takes every n-th of the points that are not finished, from its r-th.
/// Threads: run_points() starts oneTBB's; on_progress is called by any of them, one at a time.
/// Errors:  A point that fails stops those that have not begun; of several the first in order is
///          reported, with its label.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/sweep/point.h"
#include "lab/sweep/ranks.h"

namespace tributary::lab {

struct RunnerOptions {
  uint32_t threads = 0;                     ///< 0: as many as cores (under mpirun: 1).
  std::string directory = {};               ///< Where finished points are kept; empty for nowhere.
  const std::atomic<bool>* stop = nullptr;  ///< Set it, and no further point begins.
  Ranks* ranks = nullptr;                   ///< Null for this process alone.
  /// @param done Of `total`, which are this process's points; earlier kept ones count as done.
  std::function<void(uint64_t done, uint64_t total)> on_progress = {};
};

struct RunnerOutcome {
  std::vector<Json> outcomes;  ///< Shape [points], null where a point is not finished.
  uint64_t finished = 0;       ///< Of all points.
  bool interrupted = false;
  [[nodiscard]] bool complete() const { return finished == outcomes.size(); }
};

/// Refuses ranks without a directory: it is how they exchange outcomes.
[[nodiscard]] Result<RunnerOutcome> run_points(std::span<const Point> points,
                                               const RunnerOptions& options);

}  // namespace tributary::lab
