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

/// Several tables with a line above each; ends with a newline. A table of many workers, links or
/// aggregators has those that matter most, and says how many it leaves out.
[[nodiscard]] std::string run_text(const RunResult& result);

// Parts of it. Each ends with a newline.
[[nodiscard]] std::string links_text(const std::vector<LinkResult>& links);
/// An empty line before each aggregator.
[[nodiscard]] std::string aggregators_text(const std::vector<AggregatorResult>& aggregators);

}  // namespace tributary::lab
