// SPDX-License-Identifier: Apache-2.0
/// @file
/// The outcome of one point of a sweep or a figure.
///
/// Exact:   An outcome read back from its JSON gives the same JSON.
/// Tests:   tests/lab/sweep/run_output_test.cc
#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "lab/result.h"
#include "lab/sweep/run_json.h"

namespace tributary::lab {

/// The accuracy of a model that was trained in the run, after one iteration.
struct AccuracyStep {
  Duration at;  ///< From the start of the run.
  double accuracy = 0;
};

struct PointOutcome {
  RunResult result;
  std::vector<AccuracyStep> accuracy;  ///< By iteration; empty if no model was trained.
  bool failed = false;                 ///< The point could not run, and all else is empty.
};

/// Returns a number of the outcome's result; not a number if the point failed.
template <class Value>
[[nodiscard]] double value_of(const PointOutcome& outcome, Value&& value) {
  if (outcome.failed) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(std::forward<Value>(value)(outcome.result));
}

/// Returns run_json() with the key "accuracy" if a model was trained.
[[nodiscard]] Json outcome_json(const PointOutcome& outcome);

/// Reads an outcome that outcome_json() wrote. Returns nothing if it is not one.
[[nodiscard]] std::optional<PointOutcome> read_outcome(const Json& json);

}  // namespace tributary::lab
