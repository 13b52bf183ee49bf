// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a comparison has shown: rows, and the rows as table, JSON, CSV and plots.
///
/// Units:   As the fields' and keys' names end. Traffic is of worker 0's cable, on the wire, for
///          one iteration: every worker's is alike but for the odd packet.
/// Exact:   Equal rows give equal bytes.
/// Threads: Pure functions.
/// Errors:  None. A number that is not there is null, empty or "-".
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
  std::string backend;
  std::string refusal;  ///< Why it was not run; then nothing below is there.

  std::optional<double> iteration_ms = {};
  std::optional<double> speedup = {};  ///< The baseline's time over this one's, in the same case.
  std::optional<double> paper = {};    ///< What a paper says of this speed-up.
  std::string paper_source = {};
  /// Least time that a worker's cable needs for an iteration's tensors without any header, by the
  /// back end's formula (lab/backends/backend.h).
  std::optional<double> least_comm_ms = {};
  std::optional<double> sent_mb = {};
  std::optional<double> received_mb = {};
  std::optional<double> degraded_fraction = {};
  std::optional<double> missed_fraction = {};  ///< Sums that never reached a worker.
  std::optional<double> retransmissions = {};  ///< Of all workers, in the whole run.
  /// What it takes of the machines that add, in the order of the columns; empty where not run.
  std::vector<std::optional<double>> resources = {};
  std::string bottleneck = {};
  Json aggregators = Json::array();  ///< As in run_json().
  uint64_t seed = 0;
  uint32_t train = 1;
};

/// @param outcomes Shape [points], all there.
[[nodiscard]] std::vector<CompareRow> compare_rows(const Comparison& comparison,
                                                   std::span<const Json> outcomes);

/// For people: a table for each case, and what held each back end up.
[[nodiscard]] std::string compare_text(const Comparison& comparison,
                                       std::span<const CompareRow> rows);
/// An array of objects, one row a line.
[[nodiscard]] std::string compare_json(const Comparison& comparison,
                                       std::span<const CompareRow> rows);
/// A line of names, then one line a row (RFC 4180); without the aggregators' other parts.
[[nodiscard]] std::string compare_csv(std::span<const CompareRow> rows);
/// Iteration time over whatever has most values of straggling, loss and workers, a line for each
/// back end; a plot for each combination of the others.
[[nodiscard]] std::vector<LinePlot> compare_plots(std::span<const CompareRow> rows);

}  // namespace tributary::lab
