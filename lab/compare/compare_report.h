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
#include "lab/report/svg_plot.h"

namespace tributary::lab {

/// One cell.
struct CompareRow {
  CompareCase at;
  Backend backend = Backend::kTrioMl;
  std::string refusal = {};  ///< The reason why it was not run. The fields below are then empty.

  std::optional<double> iteration_ms = {};
  std::optional<double> speedup = {};  ///< The baseline's time over this one's, in the same case.
  std::optional<double> paper = {};    ///< A paper's number for this speed-up.
  std::string paper_source = {};
  /// Least time that a worker's cable needs for an iteration's tensors without headers, by
  /// least_traffic() (lab/backends/backend.h).
  std::optional<double> least_comm_ms = {};
  std::optional<double> sent_mb = {};
  std::optional<double> received_mb = {};
  std::optional<double> degraded_fraction = {};
  std::optional<double> skipped_fraction = {};  ///< Blocks that some worker did not compute.
  std::optional<double> missed_fraction = {};   ///< Sums that never reached a worker.
  std::optional<double> retransmissions = {};   ///< Of all workers, in the whole run.
  /// Resources of the aggregators, in the order of the columns; empty if not run.
  std::vector<std::optional<double>> resources = {};
  std::string bottleneck = {};
  std::vector<AggregatorResult> aggregators = {};
  uint64_t seed = 0;
  uint32_t train = 1;
};

/// Returns a row for each cell. @param outcomes Shape [points].
[[nodiscard]] std::vector<CompareRow> compare_rows(const Comparison& comparison,
                                                   std::span<const PointOutcome> outcomes);

/// Returns a table for each case, and the bottleneck of each back end.
[[nodiscard]] std::string compare_text(const Comparison& comparison,
                                       std::span<const CompareRow> rows);
/// Returns an array of objects, one row a line.
[[nodiscard]] std::string compare_json(const Comparison& comparison,
                                       std::span<const CompareRow> rows);
/// Returns a line of names, then one line a row (RFC 4180), without the aggregators' other parts.
[[nodiscard]] std::string compare_csv(std::span<const CompareRow> rows);
/// Returns plots of iteration time, with a line for each back end. The x axis is straggling, loss
/// or workers, whichever has the most values. Each combination of the others has its own plot.
[[nodiscard]] std::vector<LinePlot> compare_plots(std::span<const CompareRow> rows);

}  // namespace tributary::lab
