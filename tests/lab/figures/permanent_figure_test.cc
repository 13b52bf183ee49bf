// SPDX-License-Identifier: Apache-2.0
// Method: the figure at its quick size, against the bounds of timers that run once a timeout.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lab/figures/figure.h"
#include "tests/lab/figures/quick_figure.h"

namespace tributary::lab {
namespace {

double mean_of(const FigureOutcome& figure, const std::string& series) {
  for (const FigureRow& row : figure.rows) {
    if (row.series == series) return row.here;
  }
  ADD_FAILURE() << series;
  return 0;
}

TEST(Permanent, ExcludedWorkerCostsNothingUntilItReturns) {
  const FigureOutcome figure = quick_outcome(permanent());
  const double undisturbed = figure.rows.front().here;
  // The waiting switch ends no iteration meanwhile, and one long one.
  EXPECT_TRUE(std::isnan(mean_of(figure, "waiting-switch: while it stands still")));
  EXPECT_GT(mean_of(figure, "waiting-switch: as it goes on"), 690);
  EXPECT_LT(mean_of(figure, "waiting-switch: afterwards"), 1.02 * undisturbed);
  EXPECT_GT(mean_of(figure, "waiting-switch: all"), 18 * undisturbed + 690);
  // ResNet50 has seven windows, and each waits for 10 to 20 ms.
  const double partial = mean_of(figure, "trio-ml skip: while it stands still");
  const double excluded = mean_of(figure, "trio-ml skip, excluded: while it stands still");
  EXPECT_GT(partial, undisturbed + 50);
  EXPECT_LT(partial, undisturbed + 7 * 20);
  // Two iterations end until the exclusion, and the others take no longer.
  EXPECT_LT(excluded, undisturbed + 2 * 7 * 20 / 8.0);
  EXPECT_LT(mean_of(figure, "trio-ml skip, excluded: afterwards"), 1.05 * undisturbed);
}

}  // namespace
}  // namespace tributary::lab
