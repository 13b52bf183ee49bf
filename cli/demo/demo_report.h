// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the demo's runs come to: the table for people, demo.json for programs, the plot; all from
/// the same RunResult structures.
///
/// Shapes:  `runs` holds the clean run first; lost time is counted against it.
/// Threads: None; pure functions.
/// Tests:   tests/cli/demo/demo_report_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/demo/demo_config.h"
#include "cli/demo/demo_run.h"
#include "lab/report/svg_plot.h"

namespace tributary::demo {

/// The table's figures for one run.
struct RunFigures {
  double iteration_seconds_mean = 0.0;  ///< Over iterations and workers.
  uint64_t degraded_blocks = 0;         ///< Results taken without every source; each counts once.
  uint64_t retransmissions = 0;         ///< Contributions that workers sent again.
  double final_loss = 0.0;              ///< Validation, mean over workers, nats per byte.
  bool parameters_identical = false;    ///< The same bits on all workers.
  SumCheck sums;                        ///< Elements, over all workers.
};

[[nodiscard]] RunFigures figures_of(const RunResult& run);

/// Exact sums in every run, everything checked or knowingly unchecked, and identical parameters.
[[nodiscard]] bool all_is_well(std::span<const RunResult> runs);

/// One column for each run, one row for each figure; ends with a newline.
[[nodiscard]] std::string format_table(std::span<const RunResult> runs);

/// demo.json: sums_checked, sums_wrong, sums_unchecked and parameters_identical over all runs;
/// `config`; `runs` with an object for each run by its key.
[[nodiscard]] std::string format_json(const DemoConfig& config, std::span<const RunResult> runs);

/// Loss (mean over workers, smoothed over a few iterations) over time, one line for each run.
[[nodiscard]] lab::LinePlot loss_plot(std::span<const RunResult> runs);

}  // namespace tributary::demo
