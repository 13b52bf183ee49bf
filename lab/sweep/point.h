// SPDX-License-Identifier: Apache-2.0
/// @file
/// One point of a sweep or a figure: a scenario, and the key under which its outcome is kept.
///
/// Threads: Different points may run at the same time.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "lab/scenario.h"
#include "lab/scenario_file.h"
#include "lab/sweep/outcome.h"

namespace tributary::lab {

struct Point {
  std::string label;  ///< For messages: "backend=trio-ml straggler.probability=0.16".
  Scenario scenario;
  std::string extra = {};  ///< Names the other inputs that decide the outcome, such as `run`.
  /// Runs the scenario; empty for run_scenario().
  std::function<Result<PointOutcome>(const Scenario&)> run = {};
};

/// Refuses the first of the settings that has no effect in any of the points.
[[nodiscard]] Result<void> check_effects(std::span<const Point> points,
                                         std::span<const Setting> settings);

/// Refuses a point whose topology file or trace is not a regular file, or is larger than the
/// longest trace. A file that is missing is left to the run, which refuses it.
[[nodiscard]] Result<void> check_point_files(const Point& point);

/// Returns sixteen hexadecimal digits: FNV-1a over all keys of the scenario, its topology file, its
/// trace and `extra`. The label does not count, so two sweeps can share a point.
/// @pre check_point_files() has accepted the point.
[[nodiscard]] std::string point_key(const Point& point);

[[nodiscard]] Result<PointOutcome> run_point(const Point& point);

}  // namespace tributary::lab
