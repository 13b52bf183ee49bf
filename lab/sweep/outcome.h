// SPDX-License-Identifier: Apache-2.0
/// @file
/// The outcome of one point of a sweep or a figure.
///
/// Exact:   An outcome read back from its JSON gives the same JSON.
/// Tests:   tests/lab/sweep/run_output_test.cc
#pragma once

#include <optional>
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
};

/// Returns run_json() with the key "accuracy" if a model was trained.
[[nodiscard]] Json outcome_json(const PointOutcome& outcome);

/// Reads an outcome that outcome_json() wrote. Returns nothing if it is not one.
[[nodiscard]] std::optional<PointOutcome> read_outcome(const Json& json);

}  // namespace tributary::lab
