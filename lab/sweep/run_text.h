// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run's result for people: headline, workers, links, aggregators.
///
/// Tests: tests/lab/sweep/run_output_test.cc
#pragma once

#include <string>

#include "lab/result.h"

namespace tributary::lab {

/// Several tables with a line above each; ends with a newline.
[[nodiscard]] std::string run_text(const RunResult& result);

}  // namespace tributary::lab
