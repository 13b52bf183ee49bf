// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the results of a sweep: a table, CSV, JSON lines and plots.
///
/// Model:   A cell is a combination of the swept values. Tables and plots show its mean over the
///          repetitions and the standard error of that mean. Cells without a single outcome, and
///          repetitions that failed, are named below the table with their reasons.
/// Exact:   Equal outcomes give equal bytes.
/// Threads: None; pure functions.
/// Tests:   tests/lab/sweep/sweep_report_test.cc
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/report/svg_plot.h"
#include "lab/sweep/runner.h"
#include "lab/sweep/sweep_file.h"

namespace tributary::lab {

// @param ran The outcome of sweep.points, complete.

/// Returns a JSON line for each point, {"values":…,"outcome":…}, or {"values":…,"skipped":REASON}
/// for those that did not run, which follow.
[[nodiscard]] std::string sweep_json_lines(const Sweep& sweep, const RunnerOutcome& ran);

/// Returns a line for each cell: the swept values, then means. With repetitions also the number of
/// seeds, and each mean's standard error.
[[nodiscard]] std::string sweep_csv(const Sweep& sweep, const RunnerOutcome& ran);

/// Returns the same as a table for a terminal, as "mean ± standard error". Lines with each point
/// that did not run follow, and their number.
[[nodiscard]] std::string sweep_table(const Sweep& sweep, const RunnerOutcome& ran);

/// Returns the first swept key whose values are numbers: the plots' x axis.
[[nodiscard]] std::optional<std::string> sweep_axis(const Sweep& sweep);

/// Returns plots over sweep_axis(): the mean iteration, and each share of blocks that is not zero
/// everywhere. The other keys' combinations are the lines. Bands are standard errors.
[[nodiscard]] std::vector<LinePlot> sweep_plots(const Sweep& sweep, const RunnerOutcome& ran);

}  // namespace tributary::lab
