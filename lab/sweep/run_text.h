// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run's result for people: headline, workers, links, aggregators.
///
/// Tests: tests/lab/sweep/run_output_test.cc
#pragma once

#include <string>
#include <vector>

#include "lab/result.h"

namespace tributary::lab {

/// Several tables with a line above each; ends with a newline.
[[nodiscard]] std::string run_text(const RunResult& result);

// Parts of it. Each ends with a newline.
[[nodiscard]] std::string links_text(const std::vector<LinkResult>& links);
[[nodiscard]] std::string aggregator_text(const AggregatorResult& aggregator);

}  // namespace tributary::lab
