// SPDX-License-Identifier: Apache-2.0
// Method: cases without chance by hand, then the statistics of the paper's pattern over many points
// of a fixed seed. The bounds are exact for this seed, so the test cannot be flaky.
#include "host/straggler_pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tributary::host {
namespace {

constexpr Duration kIteration = milliseconds(100);
constexpr uint64_t kPointCount = 60'000;  // 20,000 iterations.

TEST(SlowWorkerPattern, ProbabilitiesZeroAndOneAreExact) {
  const SlowWorkerPattern never(0.0, kIteration, 1);
  const SlowWorkerPattern always(1.0, kIteration, 1);
  for (uint64_t point = 0; point < 1000; point++) {
    EXPECT_EQ(never.delay_at(point), Duration());
    EXPECT_GE(always.delay_at(point), milliseconds(50));
    EXPECT_LT(always.delay_at(point), milliseconds(200));
  }
}

TEST(SlowWorkerPattern, DelayDependsOnlyOnSeedAndPoint) {
  const SlowWorkerPattern first(0.5, kIteration, 7);
  const SlowWorkerPattern again(0.5, kIteration, 7);
  const SlowWorkerPattern other(0.5, kIteration, 8);
  uint32_t differ = 0;
  for (uint64_t point = 100; point-- > 0;) {  // Backwards: the order does not matter.
    EXPECT_EQ(again.delay_at(point), first.delay_at(point));
    differ += first.delay_at(point) != other.delay_at(point) ? 1 : 0;
  }
  // Two workers agree only where neither sleeps: a quarter of the points.
  EXPECT_GT(differ, 50U);
}

TEST(SlowWorkerPattern, FrequencyAndLengthMatchThePaper) {
  for (const double probability : {0.04, 0.16, 0.5}) {
    const SlowWorkerPattern pattern(probability, kIteration, 42);
    uint64_t delayed = 0;
    double sum_s = 0;
    Duration shortest = seconds(1);
    Duration longest;
    for (uint64_t point = 0; point < kPointCount; point++) {
      const Duration delay = pattern.delay_at(point);
      if (delay == Duration()) continue;
      delayed++;
      sum_s += in_seconds(delay);
      shortest = std::min(shortest, delay);
      longest = std::max(longest, delay);
    }
    // Five standard deviations of a binomial count.
    const double expected = probability * kPointCount;
    EXPECT_NEAR(static_cast<double>(delayed), expected,
                5 * std::sqrt(expected * (1 - probability)));
    // The mean of 0.5 … 2 is 1.25 iterations; one draw deviates by 1.5 / sqrt(12) of an iteration.
    EXPECT_NEAR(sum_s / static_cast<double>(delayed), 0.125,
                5 * 0.0433 / std::sqrt(static_cast<double>(delayed)));
    EXPECT_GE(shortest, milliseconds(50));
    EXPECT_LT(shortest, milliseconds(51));
    EXPECT_GT(longest, milliseconds(199));
    EXPECT_LT(longest, milliseconds(200));
  }
}

TEST(SlowWorkerPattern, WorkersAreIndependent) {
  // With neighbouring seeds, both sleep at about p * p of the points.
  constexpr double kProbability = 0.3;
  const SlowWorkerPattern a(kProbability, kIteration, 5);
  const SlowWorkerPattern b(kProbability, kIteration, 6);
  uint64_t both = 0;
  for (uint64_t point = 0; point < kPointCount; point++) {
    both += a.delay_at(point) != Duration() && b.delay_at(point) != Duration() ? 1 : 0;
  }
  const double expected = kProbability * kProbability * kPointCount;
  EXPECT_NEAR(static_cast<double>(both), expected, 5 * std::sqrt(expected));
}

// With a ratio of 1000 the formula's shortest iteration is 1 - 999 x 0.414 / 8.586 = -47 medians.
TEST(HeavyTailPattern, FactorsArePositiveAtBothEndsOfTheRange) {
  const HeavyTailPattern steady(1, 7);
  const HeavyTailPattern widest(1000, 7);
  double shortest = 1;
  double longest = 1;
  for (uint64_t iteration = 0; iteration < 100'000; iteration++) {
    ASSERT_EQ(steady.factor_at(iteration), 1);
    shortest = std::min(shortest, widest.factor_at(iteration));
    longest = std::max(longest, widest.factor_at(iteration));
  }
  EXPECT_EQ(shortest, kTailFactorMin);
  EXPECT_GT(longest, 1000);
  EXPECT_LT(longest, 11'500);  // 1 + 999 x (100 - 1.414) / 8.586 = 11,472.
}

}  // namespace
}  // namespace tributary::host
