// SPDX-License-Identifier: Apache-2.0
// Method: times and counts by hand, then the bound over a random run.
#include "apps/trio_ml/session/reply_budget.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

/// Returns how many of `wanted` replies the budget allows.
uint32_t taken(ReplyBudget& budget, uint32_t wanted, Instant now) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < wanted; i++) count += budget.take(now) ? 1 : 0;
  return count;
}

TEST(ReplyBudget, StartsFullAndRunsOut) {
  ReplyBudget budget(8, 2);
  EXPECT_EQ(taken(budget, 20, at_ms(0)), 8U);
}

TEST(ReplyBudget, GainsTokensEachMillisecond) {
  ReplyBudget budget(8, 2);
  EXPECT_EQ(taken(budget, 20, at_ms(0)), 8U);
  EXPECT_EQ(taken(budget, 20, at_ms(1)), 2U);
  EXPECT_EQ(taken(budget, 20, at_ms(1)), 0U);
  EXPECT_EQ(taken(budget, 20, at_ms(4)), 6U);
}

TEST(ReplyBudget, HoldsAtMostABurst) {
  ReplyBudget budget(8, 2);
  EXPECT_EQ(taken(budget, 20, at_ms(0)), 8U);
  EXPECT_EQ(taken(budget, 20, at_ms(3'600'000)), 8U);
  EXPECT_EQ(taken(budget, 20, Instant(seconds(3'000'000))), 8U);  // Over a month: no overflow.
}

// A caller that asks more often than once a millisecond must not keep the bucket from filling.
TEST(ReplyBudget, FrequentCallsDoNotStopTheGain) {
  ReplyBudget budget(8, 2);
  EXPECT_EQ(taken(budget, 20, at_ms(0)), 8U);
  uint32_t count = 0;
  for (int64_t us = 100; us < 11'000; us += 100) {
    count += taken(budget, 1, Instant(microseconds(us)));
  }
  EXPECT_EQ(count, 21U);  // One each 500 us, the last at 10.5 ms.
}

// A source that catches up asks for a small window again and again, as fast as its link.
TEST(ReplyBudget, RateAboveTheBurstIsSustained) {
  ReplyBudget budget(8, 1000);
  for (int64_t us = 0; us < 10'000; us += 8) {
    ASSERT_EQ(taken(budget, 8, Instant(microseconds(us))), 8U) << us;
  }
}

TEST(ReplyBudget, NeverExceedsItsRate) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  ReplyBudget budget(16, 3);
  Instant now;
  uint64_t count = 0;
  for (uint32_t step = 0; step < 10'000; step++) {
    now = now + microseconds(prng.below(2000));
    count += taken(budget, prng.below(20), now);
    const auto passed_ms = static_cast<uint64_t>(in_milliseconds(now - Instant()));
    ASSERT_LE(count, 16 + 3 * (passed_ms + 1)) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::trio_ml
