// SPDX-License-Identifier: Apache-2.0
/// @file
/// A figure of a paper as an experiment: its points, and the rows and plots from their outcomes.
///
/// Shapes:  finish() gets all outcomes, in the order of points().
/// Exact:   Equal options give equal points, rows and plots.
/// Threads: Pure functions.
/// Errors:  points() refuses what make_scenario() refuses.
/// Tests:   tests/lab/figures/figures_test.cc, tests/lab/figures/figure_settings_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/report/figure_row.h"
#include "lab/report/svg_plot.h"
#include "lab/scenario_file.h"
#include "lab/sweep/point.h"

namespace tributary::lab {

struct FigureOptions {
  uint64_t seed = 1;
  /// 0: the figure's own number. The figure's description says what one iteration is.
  uint32_t iterations = 0;
  uint32_t seeds = 0;  ///< Repetitions where chance is involved; 0: the figure's own number.
  bool quick = false;  ///< Fewer points and iterations, so that the figure takes seconds.
  /// Set over every point's scenario.
  std::vector<Setting> settings = {};

  /// Returns `iterations`, or if it is 0 the figure's own number.
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
                          std::span<const PointOutcome> outcomes);
};

[[nodiscard]] Figure alternatives();
[[nodiscard]] Figure asynchronous();
[[nodiscard]] Figure byteps_12();
[[nodiscard]] Figure byteps_13();
[[nodiscard]] Figure byteps_14();
[[nodiscard]] Figure byteps_15();
[[nodiscard]] Figure byteps_16();
[[nodiscard]] Figure constants();
[[nodiscard]] Figure permanent();
[[nodiscard]] Figure scheduling();
[[nodiscard]] Figure switchml_3();
[[nodiscard]] Figure switchml_6();
[[nodiscard]] Figure switchml_7();
[[nodiscard]] Figure switchml_9();
[[nodiscard]] Figure trio_12();
[[nodiscard]] Figure trio_13();
[[nodiscard]] Figure trio_13_iteration();
[[nodiscard]] Figure trio_13_settings();
[[nodiscard]] Figure trio_14();
[[nodiscard]] Figure trio_15();
[[nodiscard]] Figure trio_16();
[[nodiscard]] Figure trio_generations();

/// All figures, by name.
[[nodiscard]] const std::vector<Figure>& figures();

/// Returns the keys that the figure's rows rely on besides those that it varies: finish() has their
/// values as constants, or its labels state them. "iterations" also stands for
/// FigureOptions::iterations.
[[nodiscard]] std::span<const std::string_view> relied_keys(const Figure& figure);

/// Refuses settings that would make the figure's rows wrong:
/// - settings of keys that the figure varies, and of relied_keys();
/// - of the seed and the iterations, which have options of their own;
/// - of captures, which all runs would write to one file.
/// Also refuses settings without effect in any of its points.
[[nodiscard]] Result<void> check_settings(const Figure& figure, const FigureOptions& options);

/// Returns a point: the figure's scenario with the options' seed, and their settings over it.
[[nodiscard]] Result<Point> figure_point(const FigureOptions& options, std::string label,
                                         Scenario scenario);
/// Returns a row of `figure`. The caller adds the paper's number.
[[nodiscard]] FigureRow figure_row(const FigureOptions& options, const char* figure,
                                   std::string series, double x, double here, const char* unit);
/// Sets the paper's number. Explains a row that is more than a tenth away from it, unless the run
/// is a quick one or has settings of the user's: explanations name values of the figure's own runs.
/// @param cause Empty for none.
void compare_with_paper(const FigureOptions& options, FigureRow& row, double paper,
                        std::string cause);
/// A row's value where one setting differs from the figure's own.
struct SettingValue {
  std::string setting;  ///< "half of the computation".
  double here;
  double standard_error = 0;  ///< Standard error of `here`; 0 for a single run.
  /// The part of the setting that contradicts the paper: "p = 20 %". Empty if the paper's text
  /// allows the setting.
  std::string unlike_paper = {};
};
/// Returns `cause` and what each setting gives: "… Measured: half of the computation gives 1.09 ±
/// 0.02, 0.91 of the paper's value." A value with `unlike_paper` has no ratio. Says so if no
/// setting, or only one that contradicts the paper, is within a tenth of `paper`.
[[nodiscard]] std::string cause_with_settings(std::string cause, double paper,
                                              std::span<const SettingValue> settings);
/// Returns the gradients that a worker sends in an iteration, all of each train counted.
[[nodiscard]] double gradients_sent(const Scenario& scenario);
/// Returns all points, or the first error.
[[nodiscard]] Result<std::vector<Point>> all_or_error(std::vector<Result<Point>> made);

}  // namespace tributary::lab
