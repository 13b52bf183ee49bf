// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs points over the cores of this machine, over the ranks of an MPI job, or both. Keeps
/// finished points.
///
/// Model:   Each point is one run in virtual time, on one thread, and shares nothing with others.
///          Threads, ranks and interruptions therefore do not change the outcomes, which are in the
///          order of the points. Rank r of n takes every n-th unfinished point, from the r-th.
/// Threads: run_points() starts oneTBB's. Any of them calls on_progress, one at a time.
/// Errors:  A point that fails stops those that have not begun. The error names the first failed
///          point in the order of the points, by its label. With keep_going all others still run,
///          and the outcome has the failures. The next call runs failed points once more.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/sweep/point.h"
#include "lab/sweep/ranks.h"

namespace tributary::lab {

struct RunnerOptions {
  uint32_t threads = 0;        ///< 0: as many as cores (under mpirun: 1).
  std::string directory = {};  ///< Keeps finished points; empty to keep none.
  /// Keeps finished points if the run is stopped and `directory` is empty; may be empty.
  std::string directory_if_stopped = {};
  const std::atomic<bool>* stop = nullptr;  ///< Once true, no further point begins.
  Ranks* ranks = nullptr;                   ///< Null for this process alone.
  bool keep_going = false;                  ///< Runs the other points if one fails.
  /// @param done  Number of points that are done.
  /// @param total Number of this process's points that were not finished before.
  std::function<void(uint64_t done, uint64_t total)> on_progress = {};
};

struct RunnerOutcome {
  /// Shape [points]; empty where a point is not finished.
  std::vector<std::optional<PointOutcome>> points;
  /// Shape [points]; the reason if the point failed, else empty.
  std::vector<std::string> failures;
  uint64_t finished = 0;  ///< Of all points.
  uint64_t failed = 0;
  bool interrupted = false;
  uint64_t outdated = 0;     ///< Points that ran although the directory has them, by another model.
  std::string kept_in = {};  ///< The directory that has the finished points; empty if none has.
  [[nodiscard]] bool complete() const { return finished + failed == points.size(); }
  /// Returns the outcomes, shape [points], with PointOutcome::failed where a point failed.
  /// @pre complete().
  [[nodiscard]] std::vector<PointOutcome> outcomes() const;
};

/// Refuses several ranks without a directory, through which they exchange outcomes. Refuses a
/// directory for a stopped run only when it is needed, as an outcome without `kept_in`.
[[nodiscard]] Result<RunnerOutcome> run_points(std::span<const Point> points,
                                               const RunnerOptions& options);

}  // namespace tributary::lab
