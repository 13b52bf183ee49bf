// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked times, then a random walk whose total CPU time must stay below the share.
#include "engine/live/cpu_limiter.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

Instant at_us(int64_t time) { return Instant(microseconds(time)); }

TEST(CpuLimiter, PausesUntilTheExcessIsWorkedOff) {
  CpuLimiter limiter(25, at_us(0), microseconds(700));
  EXPECT_FALSE(limiter.is_due(at_us(999)));
  EXPECT_TRUE(limiter.is_due(at_us(1000)));
  // 1000 us of 1000 us used, 250 us allowed: an excess of 750 us, the share of 3000 us.
  EXPECT_EQ(limiter.pause(at_us(1000), microseconds(1700)), microseconds(3000));
  EXPECT_EQ(limiter.pause(at_us(4000), microseconds(1700)), Duration());
}

TEST(CpuLimiter, UnusedTimeGivesNoCredit) {
  CpuLimiter limiter(50, at_us(0), Duration());
  EXPECT_EQ(limiter.pause(at_us(1'000'000), Duration()), Duration());
  EXPECT_EQ(limiter.pause(at_us(1'001'000), microseconds(1000)), microseconds(1000));
}

TEST(CpuLimiter, AShortPauseLeavesTheRestForTheNextLook) {
  CpuLimiter limiter(50, at_us(0), Duration());
  EXPECT_EQ(limiter.pause(at_us(1000), microseconds(1000)), microseconds(1000));
  EXPECT_EQ(limiter.pause(at_us(1400), microseconds(1000)), microseconds(600));
}

TEST(CpuLimiter, AllTheTimeNeedsNoLook) {
  CpuLimiter limiter(100, at_us(0), Duration());
  EXPECT_FALSE(limiter.is_due(at_us(1'000'000)));
}

TEST(CpuLimiter, RandomLoadStaysBelowTheShare) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  const uint32_t percent = 1 + prng.below(99);
  CpuLimiter limiter(percent, Instant(), Duration());
  Instant now;
  Duration used;
  for (uint32_t step = 0; step < 1000; step++) {
    const Duration work = microseconds(1 + prng.below(3000));
    now = now + work + microseconds(prng.below(500));  // Other threads run, too.
    used = used + work;
    if (limiter.is_due(now)) now = now + limiter.pause(now, used);
  }
  // At most one interval between two looks is not worked off.
  const Duration allowed = now.since_start() * percent / 100;
  EXPECT_LE(used, allowed + microseconds(4500));
}

}  // namespace
}  // namespace tributary::engine
