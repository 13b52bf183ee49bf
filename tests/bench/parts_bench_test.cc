// SPDX-License-Identifier: Apache-2.0
// Method:  runs the smallest benchmark. Asserts that every part gave the right output, but no
//          figures.
#include "bench/parts_bench.h"

#include <gtest/gtest.h>

#include "bench/replay_engine.h"

namespace tributary::bench {
namespace {

TEST(PartsBench, EveryPartRuns) {
  const auto rows =
      run_parts_bench({.repetitions = 2, .packets_each = 2'000}, [](const std::string&) {});
  ASSERT_EQ(rows.size(), 7U);
  for (const PartsBenchRow& row : rows) {
    EXPECT_TRUE(row.is_correct) << row.part;
    EXPECT_GT(row.rate, 0) << row.part;
    EXPECT_GT(row.baseline_rate, 0) << row.part;
    EXPECT_LE(row.ratio_min, row.ratio) << row.part;
    EXPECT_LE(row.ratio, row.ratio_max) << row.part;
  }
  EXPECT_EQ(as_json(rows).at("rows").size(), 7U);
  EXPECT_NE(as_table(rows).find("ten jobs"), std::string::npos);
}

TEST(ReplayLoad, ContainsEveryContributionOnce) {
  // 32 blocks of 3 sources in 2 jobs: the same packets in order and shuffled.
  for (const bool shuffled : {false, true}) {
    const ReplayLoad load(
        {.gradients = 4, .window = 32, .sources = 3, .jobs = 2, .shuffled = shuffled});
    EXPECT_EQ(load.packets().size(), 32U * 3 * 2);
    ReplayEngine engine(load);
    engine.run(1);
    EXPECT_EQ(engine.results(), 64U);
  }
}

TEST(ReplayLoad, MayHaveFewerBlocksThanItsWindow) {
  // Ten jobs of 16 blocks need a window of 16. One job with as many blocks needs 256, a power of
  // two.
  const ReplayLoad load({.gradients = 4, .window = 256, .blocks = 160, .sources = 4});
  EXPECT_EQ(load.packets().size(), 640U);
  ReplayEngine engine(load);
  engine.run(1);
  engine.run(2);
  EXPECT_EQ(engine.results(), 320U);
}

TEST(ReplayLoad, LoadOfOneOwnerContainsItsBlocksOnly) {
  // Cores own blocks in runs of 128, so core 1 of 2 owns blocks 128 to 255 of 256.
  const ReplayLoad load(
      {.gradients = 4, .window = 256, .sources = 1, .owner = 1, .owner_count = 2});
  EXPECT_EQ(load.packets().size(), 128U);
}

}  // namespace
}  // namespace tributary::bench
