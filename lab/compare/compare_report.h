// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of a comparison, as table, JSON, CSV and plots.
///
/// Units:   Names of fields and keys end with their unit. Traffic is that on worker 0's cable, on
///          the wire, for one iteration; other workers' differs by a few packets.
/// Exact:   Equal rows give equal bytes.
/// Threads: Pure functions.
/// Errors:  None. A missing number is null, empty or "-".
/// Tests:   tests/lab/compare/compare_report_test.cc
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/compare/comparison.h"
#include "lab/report/sample.h"
#include "lab/report/svg_plot.h"
#include "lab/sweep/runner.h"

namespace tributary::lab {

/// One cell.
struct CompareRow {
  CompareCase at;
  Backend backend = Backend::kTrioMl;
  std::string refusal = {};  ///< Why it was not run, or failed. The fields below are then empty.

  // Means over the seeds, except for those that say otherwise.
  std::optional<double> iteration_ms = {};
  std::optional<double> speedup = {};  ///< The baseline's time over this one's, seed by seed.
  std::optional<Sample> iteration_sample = {};  ///< Sample of iteration_ms; none with one seed.
  std::optional<Sample> speedup_sample = {};    ///< Sample of speedup; none with one seed.
  std::optional<double> paper = {};             ///< A paper's number for this speed-up.
  std::string paper_source = {};
  /// Least time that a worker's cable needs for an iteration's tensors without headers, by
  /// least_traffic() (lab/backends/backend.h).
  std::optional<double> least_comm_ms = {};
  std::optional<double> sent_mb = {};
  std::optional<double> received_mb = {};
  std::optional<double> degraded_fraction = {};
  std::optional<double> skipped_fraction = {};  ///< Blocks that some worker did not compute.
  std::optional<double> missed_fraction = {};   ///< Sums that never reached a worker.
  std::optional<Sample> degraded_sample = {};   ///< Sample of degraded_fraction; none for one seed.
  std::optional<Sample> skipped_sample = {};
  std::optional<Sample> missed_sample = {};
  std::optional<double> retransmissions = {};  ///< Total over all workers and the whole run.
  /// Resources of the aggregators, in the order of the columns; empty if not run.
  std::vector<std::optional<double>> resources = {};
  std::string bottleneck = {};                     ///< From the first seed's run.
  std::vector<AggregatorResult> aggregators = {};  ///< From the first seed's run.
  uint64_t seed = 0;                               ///< The first one.
  uint32_t seeds = 1;                              ///< Number of runs.
  bool by_chance = false;                          ///< Other seeds give other times.
  std::string settings = {};  ///< The user's settings over the comparison's own; empty: none.
  uint32_t train = 1;
};

/// Returns a row for each cell. A cell with a failed point has the failure instead of values, since
/// a mean over the other seeds would favour it. @param ran Complete; shape [points].
[[nodiscard]] std::vector<CompareRow> compare_rows(const Comparison& comparison,
                                                   const RunnerOutcome& ran);

/// Returns a table for each case, and the bottleneck of each back end.
[[nodiscard]] std::string compare_text(const Comparison& comparison,
                                       std::span<const CompareRow> rows);
/// Returns an array of objects, one row a line.
[[nodiscard]] std::string compare_json(const Comparison& comparison,
                                       std::span<const CompareRow> rows);
/// Returns a line of names, then one line a row (RFC 4180), without the aggregators' other parts.
[[nodiscard]] std::string compare_csv(std::span<const CompareRow> rows);
/// Returns plots of iteration time, with a line for each back end and bands of standard errors. The
/// x axis is straggling, loss or workers, whichever has the most values. Each combination of the
/// others has its own plot. Plots of the shares of blocks (degraded, skipped, missed) follow where
/// they are not zero everywhere.
[[nodiscard]] std::vector<LinePlot> compare_plots(std::span<const CompareRow> rows);

}  // namespace tributary::lab
