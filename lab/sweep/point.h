// SPDX-License-Identifier: Apache-2.0
/// @file
/// One point of a sweep or a figure: a scenario, and the key under which its outcome is kept.
///
/// Threads: run() of different points may be called at the same time.
/// Tests:   tests/lab/sweep/runner_test.cc
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "lab/scenario.h"
#include "lab/sweep/run_json.h"

namespace tributary::lab {

struct Point {
  std::string label;             ///< For messages: "backend=trio-ml straggler.probability=0.16".
  Json values = Json::object();  ///< What tells it from the other points of its sweep.
  Scenario scenario;
  std::string extra = {};  ///< What else decides the outcome, as text.
  /// What is done with the scenario; nothing for run_scenario() and run_json().
  std::function<Result<Json>(const Scenario&)> run = {};
};

/// Sixteen hexadecimal digits: FNV-1a over all keys of the scenario, its topology
/// file and `extra`. Labels and values
/// do not count, so a point that two sweeps share is the same one.
[[nodiscard]] std::string point_key(const Point& point);

[[nodiscard]] Result<Json> run_point(const Point& point);

}  // namespace tributary::lab
