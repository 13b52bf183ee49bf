// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a figure's quick form in a test, and looks up its values.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "lab/figures/figure.h"
#include "lab/sweep/runner.h"

namespace tributary::lab {

inline const FigureOptions kQuick{.seed = 3, .quick = true};

/// Returns the quick figure; empty if a step failed.
inline FigureOutcome quick_outcome(const Figure& figure, const FigureOptions& options = kQuick) {
  const auto points = figure.points(options);
  EXPECT_TRUE(points) << points.error().text;
  if (!points) return {};
  const auto ran = run_points(*points, {.threads = 2});
  EXPECT_TRUE(ran) << ran.error().text;
  return ran ? figure.finish(options, *points, ran->outcomes()) : FigureOutcome();
}

/// Returns the value of a series at x, or NaN if it has none.
inline double value_at(const FigureOutcome& outcome, const std::string& series, double x) {
  for (const FigureRow& row : outcome.rows) {
    if (row.series == series && row.x == x) return row.here;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tributary::lab
