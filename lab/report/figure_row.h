// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of a figure: what was computed here beside what the paper says, and how rows are written.
///
/// Units:   Each row names its own.
/// Exact:   The same rows give the same bytes: numbers in their shortest form that reads back the
///          same, keys and lines in the order of the rows.
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
  std::optional<double> paper = {};  ///< What the paper states in words; none if it does not.
  double here = 0.0;
  std::string unit = {};
  std::optional<double> spread = {};  ///< Standard deviation of `here` over repetitions, same unit.
  uint64_t seed = 0;                  ///< Of the run, to have it again.
};

/// Columns series, x, paper, here, ratio (here / paper), unit; `x_name` heads the second. Ends with
/// a newline.
[[nodiscard]] std::string as_table(std::span<const FigureRow> rows, const std::string& x_name);

/// An array of objects with the keys figure, series, x, paper (null if none), here, unit, spread
/// (null if none) and seed; one row a line.
[[nodiscard]] std::string as_json(std::span<const FigureRow> rows);

/// A line of names, then one line a row, RFC 4180; columns as the JSON keys.
[[nodiscard]] std::string as_csv(std::span<const FigureRow> rows);

/// A number as people want it: four significant digits, no exponent between 1e-4 and 1e6; "-" if it
/// is not finite.
[[nodiscard]] std::string short_number(double value);

/// A field of a CSV line, quoted if it must be (RFC 4180 §2).
[[nodiscard]] std::string csv_field(const std::string& text);

}  // namespace tributary::lab
