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
#include <optional>
#include <span>
#include <string>

namespace tributary::lab {

struct FigureRow {
  std::string figure;  ///< "trio-15".
  std::string series;  ///< "latency".
  double x = 0.0;
  std::optional<double> paper = {};  ///< The value in the paper's text, if any.
  double here = 0.0;
  std::string unit = {};
  std::optional<double> spread = {};  ///< Standard deviation of `here` over repetitions, same unit.
  uint64_t seed = 0;                  ///< The run's seed, to repeat it.
};

/// Returns a table with the columns series, x, paper, here, ratio (here / paper), unit. `x_name` is
/// the second column's heading. Ends with a newline.
[[nodiscard]] std::string as_table(std::span<const FigureRow> rows, const std::string& x_name);

/// Returns an array of objects with the keys figure, series, x, paper (null if none), here, unit,
/// spread (null if none) and seed; one row per line.
[[nodiscard]] std::string as_json(std::span<const FigureRow> rows);

/// Returns a line of names and one line per row (RFC 4180); the columns are the JSON keys.
[[nodiscard]] std::string as_csv(std::span<const FigureRow> rows);

/// Formats a number with four significant digits, without an exponent between 1e-4 and 1e6; "-" if
/// it is not finite.
[[nodiscard]] std::string short_number(double value);

/// Returns a field of a CSV line, quoted if necessary (RFC 4180 §2).
[[nodiscard]] std::string csv_field(const std::string& text);

}  // namespace tributary::lab
