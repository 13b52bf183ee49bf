// SPDX-License-Identifier: Apache-2.0
// Method: the properties of each pattern, counted over many draws.
#include "lab/workload/straggler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "host/straggler_pattern.h"

namespace tributary::lab {
namespace {

constexpr Duration kTypical = milliseconds(100);

std::unique_ptr<StragglerPattern> pattern_of(const Scenario& scenario) {
  return straggler_kind(scenario.straggler.pattern).make(scenario, kTypical);
}

Scenario scenario_with(Straggling pattern, double probability = 0) {
  Scenario scenario;
  scenario.workers = 4;
  scenario.straggler.pattern = pattern;
  scenario.straggler.probability = probability;
  return scenario;
}

TEST(StragglerPattern, DelayPointHasAtMostOneSlowWorker) {
  const auto pattern = pattern_of(scenario_with(Straggling::kSlowWorker, 0.5));
  constexpr uint32_t kPoints = 20'000;
  uint32_t delays = 0;
  std::array<uint32_t, 4> by_worker{};
  double total_s = 0;
  for (uint64_t point = 0; point < kPoints; point++) {
    uint32_t slow = 0;
    for (uint32_t worker = 0; worker < 4; worker++) {
      const Duration delay = pattern->delay_at(worker, point);
      if (delay == Duration()) continue;
      slow++;
      by_worker[worker]++;
      total_s += in_seconds(delay);
      EXPECT_GE(delay, kTypical / 2);
      EXPECT_LE(delay, kTypical * 2);
    }
    ASSERT_LE(slow, 1U);
    delays += slow;
  }
  // Half of the points delay, each of four workers equally often, by 1.25 iterations on average.
  // Bounds: five standard deviations.
  EXPECT_NEAR(delays, kPoints / 2.0, 360);
  for (const uint32_t count : by_worker) EXPECT_NEAR(count, kPoints / 8.0, 240);
  EXPECT_NEAR(total_s / delays, 0.125, 0.0022);
}

TEST(StragglerPattern, WorkersAreDelayedIndependently) {
  const auto pattern = pattern_of(scenario_with(Straggling::kSlowWorkerEach, 0.5));
  constexpr uint32_t kPoints = 20'000;
  uint32_t both = 0;
  for (uint64_t point = 0; point < kPoints; point++) {
    const bool first = pattern->delay_at(0, point) > Duration();
    const bool second = pattern->delay_at(1, point) > Duration();
    both += first && second ? 1 : 0;
  }
  EXPECT_NEAR(both, kPoints / 4.0, 310);
}

TEST(StragglerPattern, SameSeedGivesTheSamePattern) {
  Scenario scenario = scenario_with(Straggling::kSlowWorker, 0.3);
  const auto one = pattern_of(scenario);
  const auto same = pattern_of(scenario);
  scenario.seed++;
  const auto other = pattern_of(scenario);
  bool differs = false;
  for (uint64_t point = 0; point < 200; point++) {
    EXPECT_EQ(one->delay_at(2, point), same->delay_at(2, point));
    differs |= one->delay_at(2, point) != other->delay_at(2, point);
  }
  EXPECT_TRUE(differs);
}

TEST(StragglerPattern, FailSlowAffectsOneWorker) {
  Scenario scenario = scenario_with(Straggling::kFailSlow);
  scenario.straggler.worker = 2;
  scenario.straggler.factor = 3.5;
  const auto pattern = pattern_of(scenario);
  EXPECT_EQ(pattern->compute_factor(2, 7), 3.5);
  EXPECT_EQ(pattern->compute_factor(1, 7), 1);
  EXPECT_EQ(pattern->delay_at(2, 0), Duration());
}

TEST(StragglerPattern, HeavyTailMatchesItsPercentiles) {
  Scenario scenario = scenario_with(Straggling::kHeavyTail);
  scenario.straggler.p99_over_p50 = 4;
  const auto pattern = pattern_of(scenario);
  std::vector<double> factors;
  for (uint32_t i = 0; i < 100'000; i++) factors.push_back(pattern->compute_factor(1, i));
  std::sort(factors.begin(), factors.end());
  EXPECT_NEAR(factors[50'000], 1, 0.01);
  EXPECT_NEAR(factors[99'000], 4, 0.25);
  EXPECT_GT(factors.front(), 0.8);  // 1 - 3 x 0.414 / 8.586 = 0.855.
  EXPECT_LT(factors.back(), 1 + 11.6 * 3);
  EXPECT_NE(pattern->compute_factor(0, 0), pattern->compute_factor(1, 0));
}

TEST(StragglerPattern, PausePatternNamesWorkerAndTime) {
  Scenario scenario = scenario_with(Straggling::kPause);
  scenario.straggler.worker = 3;
  ASSERT_TRUE(pattern_of(scenario)->pause().has_value());
  EXPECT_EQ(pattern_of(scenario)->pause()->worker, 3U);
  scenario.straggler.pattern = Straggling::kAbsent;
  EXPECT_FALSE(pattern_of(scenario)->contributes(3));
  EXPECT_TRUE(pattern_of(scenario)->contributes(0));
  scenario.straggler.pattern = Straggling::kBackgroundFlow;
  EXPECT_EQ(pattern_of(scenario)->background_to(), 3U);
}

}  // namespace
}  // namespace tributary::lab
