// SPDX-License-Identifier: Apache-2.0
#include "lab/report/plot_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(AxisTicks, TicksAreRoundAndCoverTheRange) {
  EXPECT_THAT(axis_ticks(0.0, 10.0, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(axis_ticks(1.3, 3.9, 3), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(axis_ticks(-0.04, 0.05, 2),
              ElementsAre(DoubleNear(-0.05, 1e-12), 0, DoubleNear(0.05, 1e-12)));
}

TEST(AxisTicks, OneValueStillHasAnAxis) {
  const auto ticks = axis_ticks(5.0, 5.0, 4);
  ASSERT_GE(ticks.size(), 2);
  EXPECT_LE(ticks.front(), 5.0);
  EXPECT_GT(ticks.back(), 5.0);
}

TEST(AxisTicks, RandomRangesAreCoveredByFewTicks) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 1000; step++) {
    const double low = 1e4 * (prng.unit() - 0.5);
    const double high = low + 1e3 * prng.unit() + 1e-3;
    const auto ticks = axis_ticks(low, high, 6);
    ASSERT_GE(ticks.size(), 2) << low << " " << high;
    ASSERT_LE(ticks.size(), 9) << low << " " << high;
    const double slack = 2e-3 * (ticks[1] - ticks[0]);
    ASSERT_LE(ticks.front(), low + slack);
    ASSERT_GE(ticks.back(), high - slack);
  }
}

TEST(Axis, LogarithmicAxisPlacesPowersEvenly) {
  const Axis axis{{1, 4, 16}, 100, 300, PlotScale::kLog2};
  EXPECT_DOUBLE_EQ(axis.pixel(1), 100);
  EXPECT_DOUBLE_EQ(axis.pixel(4), 200);
  EXPECT_DOUBLE_EQ(axis.pixel(8), 250);
  EXPECT_FALSE(can_show(PlotScale::kLog2, 0));
  EXPECT_TRUE(can_show(PlotScale::kLinear, 0));
}

}  // namespace
}  // namespace tributary::lab
