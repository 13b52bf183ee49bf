// SPDX-License-Identifier: Apache-2.0
/// @file
/// The results of the demo's runs: the table for people, demo.json for programs and the plot, all
/// from the same RunResult structures.
///
/// Shapes:  The first of `runs` is the clean run; lost time is relative to it.
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
  uint64_t degraded_blocks = 0;         ///< Results that lack a source; each counts once.
  uint64_t retransmissions = 0;         ///< Contributions that workers retransmitted.
  double final_loss = 0.0;              ///< On validation text, mean over workers, nats per byte.
  bool parameters_identical = false;    ///< All workers have the same bits.
  SumCheck sums;                        ///< Elements, summed over all workers.
};

[[nodiscard]] RunFigures figures_of(const RunResult& run);

/// Returns true if no sum was wrong, some were checked, and all workers' parameters are identical.
[[nodiscard]] bool all_is_well(std::span<const RunResult> runs);

/// Returns a table with one column per run and one row per figure; ends with a newline.
[[nodiscard]] std::string format_table(std::span<const RunResult> runs);

/// Returns demo.json: sums_checked, sums_wrong, sums_unchecked and parameters_identical over all
/// runs; `config`; and `runs` with one object per run, by its key.
[[nodiscard]] std::string format_json(const DemoConfig& config, std::span<const RunResult> runs);

/// Plots loss (mean over workers, smoothed over a few iterations) over time, one line per run.
[[nodiscard]] lab::LinePlot loss_plot(std::span<const RunResult> runs);

}  // namespace tributary::demo
