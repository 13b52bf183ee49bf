// SPDX-License-Identifier: Apache-2.0
// Method: the figures of the BytePS paper at their quick size, against the paper's statements and
// the bounds that equation 6 sets.
#include <gtest/gtest.h>

#include <limits>

#include "lab/figures/figure.h"
#include "lab/sweep/runner.h"

namespace tributary::lab {
namespace {

/// Returns the quick figure; empty if a step failed.
FigureOutcome quick_outcome(const Figure& figure) {
  const FigureOptions options{.seed = 3, .quick = true};
  const auto points = figure.points(options);
  EXPECT_TRUE(points) << points.error().text;
  if (!points) return {};
  const auto ran = run_points(*points, {.threads = 2});
  EXPECT_TRUE(ran) << ran.error().text;
  return ran ? figure.finish(options, *points, ran->outcomes()) : FigureOutcome();
}

/// Returns the value of a series at x, or NaN if it has none.
double value_at(const FigureOutcome& outcome, const std::string& series, double x) {
  for (const FigureRow& row : outcome.rows) {
    if (row.series == series && row.x == x) return row.here;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

TEST(Byteps12, GoodputIsWithinNinePercentOfTheOptimum) {
  const FigureOutcome figure = quick_outcome(byteps_12());
  for (const double k : {0.0, 4.0, 8.0}) {
    EXPECT_GE(value_at(figure, "sharded, of the optimum", k), 91) << k;
    EXPECT_LE(value_at(figure, "sharded, of the optimum", k), 100 / 1.0240) << k;  // Framing.
  }
  // Equation 6 with n = 8 and B = 90: 90 x 64 / 112, 90 x 88 / 112 and 90.
  EXPECT_NEAR(value_at(figure, "optimum", 0), 51.43, 0.01);
  EXPECT_NEAR(value_at(figure, "optimum", 4), 70.71, 0.01);
  EXPECT_DOUBLE_EQ(value_at(figure, "optimum", 8), 90);
}

TEST(Byteps12, AllReduceIsOptimalOnlyWithoutSpareMachines) {
  const FigureOutcome figure = quick_outcome(byteps_12());
  const double ring = value_at(figure, "all-reduce", 0);
  EXPECT_GE(ring, 0.95 * value_at(figure, "optimum", 0));
  EXPECT_LE(ring, 0.6 * value_at(figure, "optimum", 8));
  // Spare machines alone limit k of 8 to k / 8 of the link (BytePS paper, table 1).
  EXPECT_NEAR(value_at(figure, "spare machines only", 4), 45 / 1.024, 1);
  EXPECT_NEAR(value_at(figure, "spare machines only", 8), 90 / 1.024, 2);
}

TEST(Byteps13, SpareMachinesSpeedTrainingUp) {
  const FigureOutcome figure = quick_outcome(byteps_13());
  // The calibration's value (§7.2), and the prediction beside the paper's 1.45.
  EXPECT_NEAR(value_at(figure, "over no spare machine", 8), 1.2, 0.02);
  EXPECT_NEAR(value_at(figure, "over all-reduce", 8), 1.45, 0.145);
  EXPECT_GT(value_at(figure, "over all-reduce", 0), 1);
}

TEST(Byteps14, RootBesideTheNicIsSlower) {
  const FigureOutcome figure = quick_outcome(byteps_14());
  EXPECT_GT(value_at(figure, "root=2", 0), 1.05 * value_at(figure, "root=0", 0));
  EXPECT_GT(value_at(figure, "root=0", 0), value_at(figure, "all-reduce", 0));
}

}  // namespace
}  // namespace tributary::lab
