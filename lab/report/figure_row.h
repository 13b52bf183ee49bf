// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of a figure, each a computed value beside the paper's, and their writers.
///
/// Units:   Each row names its unit.
/// Exact:   The same rows give the same bytes: numbers in their shortest exact form, keys and lines
///          in the order of the rows.
/// Threads: None; pure functions.
/// Errors:  None; a number that is not finite is written as null (JSON) or left empty (CSV, table).
/// Tests:   tests/lab/report/figure_row_test.cc
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/report/sample.h"

namespace tributary::lab {

/// Shares of the results that workers received, and the workers that left the job.
struct BlockShares {
  double degraded = 0;  ///< The sum lacks a worker.
  double skipped = 0;   ///< Some worker received without computing, to catch up.
  double missed = 0;    ///< The sum never reached the worker.
  /// Share of the runs in which a worker left the job. The others trained on, and all values are
  /// theirs.
  double dropped_out = 0;
  /// Mean number of iterations that such a worker ended; not a number if none left.
  double dropout_iteration = std::numeric_limits<double>::quiet_NaN();
  uint32_t runs = 0;  ///< Behind the shares.
};

struct FigureRow {
  std::string figure;  ///< "trio-15".
  std::string series;  ///< "latency".
  double x = 0.0;
  std::optional<double> paper = {};  ///< The value in the paper's text, if any.
  double here = 0.0;
  std::string unit = {};
  /// Statistics of `here` over repetitions with different seeds; empty for a single run.
  std::optional<Sample> sample = {};
  std::optional<BlockShares> shares = {};  ///< Shares in the runs behind `here`.
  /// The measured cause of the distance from the paper, and the setting without it.
  std::string explained = {};
  uint64_t seed = 0;              ///< The first run's seed, to repeat it.
  std::string settings = {};      ///< The user's, over the figure's own: "workers=2 iterations=5".
  std::string model_digest = {};  ///< model_digest() (lab/sweep/model_digest.h).
};

/// A table's cells, the head first, and the explanations that cells refer to as [1], [2] and so on.
struct RowTable {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> explanations;
};

/// Returns the cells of as_table().
[[nodiscard]] RowTable table_of(std::span<const FigureRow> rows, const std::string& x_name);

/// Returns a table with the columns series, x, paper, here, ratio (here / paper), unit. Columns of
/// samples (standard error, lowest and highest), of shares, and of dropouts if any worker left the
/// job, follow if some row has them, then the explanations as numbered lines. `x_name` is the
/// second column's heading. Ends with a newline.
[[nodiscard]] std::string as_table(std::span<const FigureRow> rows, const std::string& x_name);

/// Returns an array of objects, one row per line, with the keys figure, series, x, paper, here,
/// unit, spread (standard deviation), standard_error, low, high, seeds, degraded, skipped, missed,
/// dropped_out, dropout_iteration, explained, seed, settings and model_digest. Values that a row
/// lacks are null.
[[nodiscard]] std::string as_json(std::span<const FigureRow> rows);

/// Returns a line of names and one line per row (RFC 4180); the columns are the JSON keys.
[[nodiscard]] std::string as_csv(std::span<const FigureRow> rows);

/// Formats a number with four significant digits, without an exponent between 1e-4 and 1e6; "-" if
/// it is not finite.
[[nodiscard]] std::string short_number(double value);

/// Returns a field of a CSV line, quoted if necessary (RFC 4180 §2).
[[nodiscard]] std::string csv_field(const std::string& text);

}  // namespace tributary::lab
