// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result of several jobs in one network: for people, as JSON, and as a plot over time.
///
/// Units:  JSON keys end with their unit: _ns, _bytes.
/// Exact:  Equal results give equal bytes.
/// Tests:  tests/lab/sweep/shared_output_test.cc
#pragma once

#include <span>
#include <string>

#include "lab/report/svg_plot.h"
#include "lab/shared_scenario.h"
#include "lab/sweep/run_json.h"

namespace tributary::lab {

/// Returns a table of the jobs, one of the links and one for each aggregator; ends with a newline.
[[nodiscard]] std::string shared_text(const SharedResult& result);

/// Returns the keys `jobs` (a list), `links`, `aggregators` and the totals.
[[nodiscard]] Json shared_json(const SharedResult& result);

/// Returns each job's iteration times over the time of the run; the mean alone is a dashed line.
[[nodiscard]] LinePlot iterations_plot(std::span<const JobResult> jobs);

}  // namespace tributary::lab
