// SPDX-License-Identifier: Apache-2.0
/// @file
/// A figure of a paper as an experiment: which points to run, and what their outcomes come to.
///
/// Shapes:  finish() gets the outcomes in the order of points(), all there.
/// Exact:   Equal options give equal points, rows and plots.
/// Threads: Pure functions.
/// Errors:  Settings that no scenario has are refused as make_scenario() does.
/// Tests:   tests/lab/figures/, one file a figure
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/report/figure_row.h"
#include "lab/report/svg_plot.h"
#include "lab/sweep/point.h"

namespace tributary::lab {

struct FigureOptions {
  uint64_t seed = 1;
  uint32_t iterations = 0;  ///< 0: the figure's own. What one is, the figure's description says.
  bool quick = false;       ///< Fewer points and iterations: seconds, for a look and for CI.
  /// Over every point's scenario, the figure's own keys included.
  std::vector<WrittenKey> settings = {};

  /// The iterations to run of a figure that has `own`, and `own_quick` with `quick`.
  [[nodiscard]] uint32_t count_of(uint32_t own, uint32_t own_quick) const {
    if (iterations != 0) return iterations;
    return quick ? own_quick : own;
  }
  [[nodiscard]] uint32_t count_of(uint32_t own) const { return count_of(own, own); }
};

struct FigureOutcome {
  std::vector<FigureRow> rows;
  std::vector<LinePlot> plots;
  std::vector<std::string> notes;  ///< For people, one line each.
};

struct Figure {
  std::string name;         ///< "trio-15".
  std::string description;  ///< One line.
  std::string x_name;       ///< Head of the table's second column.
  Result<std::vector<Point>> (*points)(const FigureOptions& options);
  FigureOutcome (*finish)(const FigureOptions& options, std::span<const Point> points,
                          std::span<const Json> outcomes);
};

[[nodiscard]] Figure switchml_3();
[[nodiscard]] Figure switchml_6();
[[nodiscard]] Figure switchml_7();
[[nodiscard]] Figure switchml_9();
[[nodiscard]] Figure trio_12();
[[nodiscard]] Figure trio_13();
[[nodiscard]] Figure trio_14();
[[nodiscard]] Figure trio_15();
[[nodiscard]] Figure trio_16();

/// All figures, by name.
[[nodiscard]] const std::vector<Figure>& figures();

/// A point with the figure's own keys under the options' settings. @param keys "key=value" each.
[[nodiscard]] Result<Point> figure_point(const FigureOptions& options, std::string label,
                                         const std::vector<std::string>& keys);
/// All points, or the first error.
[[nodiscard]] Result<std::vector<Point>> all_or_error(std::vector<Result<Point>> made);

}  // namespace tributary::lab
