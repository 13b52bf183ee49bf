// SPDX-License-Identifier: Apache-2.0
// Method: the properties of each pattern, counted over many draws.
#include "lab/workload/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "host/straggler_pattern.h"
#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

constexpr Duration kTypical = milliseconds(100);

std::unique_ptr<StragglerPattern> pattern_of(const Scenario& scenario) {
  return *make_pattern(scenario.straggler.pattern, scenario, kTypical);
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

TEST(StragglerPattern, FixedSleeperIsAlwaysTheSame) {
  Scenario scenario = scenario_with(Straggling::kSlowWorkerFixed, 0.5);
  scenario.straggler.worker = 2;
  const auto pattern = pattern_of(scenario);
  constexpr uint32_t kPoints = 20'000;
  uint32_t delays = 0;
  for (uint64_t point = 0; point < kPoints; point++) {
    for (const uint32_t other : {0U, 1U, 3U}) {
      EXPECT_EQ(pattern->delay_at(other, point), Duration());
    }
    delays += pattern->delay_at(2, point) > Duration() ? 1 : 0;
  }
  EXPECT_NEAR(delays, kPoints / 2.0, 360);  // Five standard deviations.
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
  EXPECT_EQ(pattern_of(scenario)->pause()->workers, std::vector<uint32_t>{3});
  scenario.straggler.pattern = Straggling::kAbsent;
  EXPECT_FALSE(pattern_of(scenario)->contributes(3));
  EXPECT_TRUE(pattern_of(scenario)->contributes(0));
  scenario.straggler.pattern = Straggling::kBackgroundFlow;
  EXPECT_EQ(pattern_of(scenario)->background_to(), std::vector<uint32_t>{3});
}

// --- Several stragglers, several patterns -------------------------------------------------------

TEST(StragglerPattern, NamedWorkersReplaceTheOne) {
  Scenario scenario = scenario_with(Straggling::kFailSlow);
  scenario.straggler.worker = 2;
  scenario.straggler.workers = {3, 0};
  scenario.straggler.factor = 2;
  const auto slow = pattern_of(scenario);
  EXPECT_EQ(slow->compute_factor(0, 5), 2);
  EXPECT_EQ(slow->compute_factor(1, 5), 1);
  EXPECT_EQ(slow->compute_factor(2, 5), 1);
  EXPECT_EQ(slow->compute_factor(3, 5), 2);
  scenario.straggler.pattern = Straggling::kPause;
  EXPECT_EQ(pattern_of(scenario)->pause()->workers, (std::vector<uint32_t>{0, 3}));
  scenario.straggler.pattern = Straggling::kAbsent;
  EXPECT_FALSE(pattern_of(scenario)->contributes(0));
  EXPECT_TRUE(pattern_of(scenario)->contributes(2));
  scenario.straggler.pattern = Straggling::kBackgroundFlow;
  EXPECT_EQ(pattern_of(scenario)->background_to(), (std::vector<uint32_t>{0, 3}));
}

TEST(StragglerPattern, RackNamesItsWorkers) {
  Scenario scenario;
  scenario.topology = Topology::kTwoLevel;
  scenario.workers = 6;
  scenario.leaves = 3;
  scenario.straggler.racks = {1};
  EXPECT_EQ(named_workers(scenario), (std::vector<uint32_t>{2, 3}));
  scenario.straggler.workers = {5, 2};
  EXPECT_EQ(named_workers(scenario), (std::vector<uint32_t>{2, 3, 5}));
  scenario.straggler.racks = {0, 2};
  EXPECT_EQ(named_workers(scenario), (std::vector<uint32_t>{0, 1, 2, 4, 5}));
}

TEST(StragglerPattern, OnlyNamedWorkersSleep) {
  for (const Straggling kind :
       {Straggling::kSlowWorker, Straggling::kSlowWorkerEach, Straggling::kSlowWorkerFixed}) {
    Scenario scenario = scenario_with(kind, 1);
    scenario.straggler.workers = {1, 3};
    const auto pattern = pattern_of(scenario);
    uint32_t one = 0;
    uint32_t both = 0;
    for (uint64_t point = 0; point < 1000; point++) {
      EXPECT_EQ(pattern->delay_at(0, point), Duration());
      EXPECT_EQ(pattern->delay_at(2, point), Duration());
      const bool first = pattern->delay_at(1, point) > Duration();
      const bool second = pattern->delay_at(3, point) > Duration();
      one += first != second ? 1 : 0;
      both += first && second ? 1 : 0;
      EXPECT_NE(pattern->delay_at(1, point), pattern->delay_at(3, point));
    }
    EXPECT_EQ(one, kind == Straggling::kSlowWorker ? 1000U : 0U);
    EXPECT_EQ(both, kind == Straggling::kSlowWorker ? 0U : 1000U);
  }
}

TEST(StragglerPattern, HeavyTailOfNamedWorkersOnly) {
  Scenario scenario = scenario_with(Straggling::kHeavyTail);
  scenario.straggler.workers = {2};
  const auto pattern = pattern_of(scenario);
  EXPECT_EQ(pattern->compute_factor(1, 7), 1);
  EXPECT_NE(pattern->compute_factor(2, 7), 1);
}

TEST(StragglerPattern, CombinedDelaysAddUpAndFactorsMultiply) {
  Scenario scenario = scenario_with(Straggling::kSlowWorkerFixed, 1);
  scenario.straggler.worker = 1;
  scenario.straggler.factor = 3;
  PatternSet set = Straggling::kSlowWorkerFixed;
  const auto fixed = *make_pattern(set, scenario, kTypical);
  set.add(Straggling::kFailSlow);
  set.add(Straggling::kPause);
  const auto three = *make_pattern(set, scenario, kTypical);
  EXPECT_EQ(three->compute_factor(1, 0), 3);
  EXPECT_EQ(three->compute_factor(0, 0), 1);
  // The first pattern's random numbers do not depend on the others.
  EXPECT_EQ(three->delay_at(1, 4), fixed->delay_at(1, 4));
  EXPECT_EQ(three->pause()->workers, std::vector<uint32_t>{1});
  EXPECT_TRUE(three->contributes(1));
  set = Straggling::kFailSlow;
  set.add(Straggling::kHeavyTail);
  const auto tail = *make_pattern(set, scenario, kTypical);
  EXPECT_NEAR(tail->compute_factor(0, 2), 1, 30);
  EXPECT_EQ(tail->delay_at(1, 4), Duration());
}

TEST(StragglerPattern, TraceGivesItsDelaysBesideOthers) {
  const testing::ScratchDirectory scratch;
  Scenario scenario = scenario_with(Straggling::kTrace);
  scenario.straggler.trace =
      scratch.file("t.csv", "worker,iteration,point,delay_ms\n3,1,2,40\n1,0,0,2.5\n");
  const auto trace = pattern_of(scenario);
  EXPECT_EQ(trace->delay_at(3, 1 * 3 + 2), milliseconds(40));
  EXPECT_EQ(trace->delay_at(1, 0), microseconds(2500));
  EXPECT_EQ(trace->delay_at(0, 0), Duration());
  EXPECT_EQ(trace->recorded_total(), microseconds(42'500));

  scenario.straggler.pattern.add(Straggling::kSlowWorkerFixed);
  scenario.straggler.probability = 1;
  scenario.straggler.worker = 3;
  const auto both = pattern_of(scenario);
  scenario.straggler.pattern = Straggling::kSlowWorkerFixed;
  EXPECT_EQ(both->delay_at(3, 5), milliseconds(40) + pattern_of(scenario)->delay_at(3, 5));
  EXPECT_EQ(both->recorded_total(), microseconds(42'500));

  scenario.straggler.pattern = Straggling::kTrace;
  scenario.workers = 3;
  const auto refused = make_pattern(scenario.straggler.pattern, scenario, kTypical);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("t.csv:2: worker=3 is not allowed"), std::string::npos);
  EXPECT_EQ(refused.error().text.find("straggler.trace: "), 0U);
}

// Such a run would show recorded delays that cost nothing.
TEST(StragglerPattern, RefusesATraceBeyondTheRun) {
  const testing::ScratchDirectory scratch;
  Scenario scenario;
  scenario.straggler.pattern = Straggling::kTrace;
  scenario.straggler.trace =
      scratch.file("t.csv", "worker,iteration,point,delay_ms\n1,9,2,5\n0,7,0,5\n");
  scenario.iterations = 7;
  ASSERT_FALSE(check_trace(scenario));
  EXPECT_THAT(check_trace(scenario).error().text,
              ::testing::HasSubstr("the first row is of iteration 7, and iterations=7; allowed: "));
  scenario.iterations = 8;
  EXPECT_TRUE(check_trace(scenario));
}

TEST(StragglerPattern, CombinedPatternsDrawTheirOwnNumbers) {
  const Scenario scenario = scenario_with(Straggling::kNone, 1);
  PatternSet set = Straggling::kSlowWorkerEach;
  set.add(Straggling::kSlowWorkerFixed);
  const auto each = *make_pattern(Straggling::kSlowWorkerEach, scenario, kTypical);
  const auto both = *make_pattern(set, scenario, kTypical);
  bool differs = false;
  for (uint64_t point = 0; point < 100; point++) {
    // Worker 0 sleeps twice, 0.5 to 2 typical iterations each.
    const Duration second = both->delay_at(0, point) - each->delay_at(0, point);
    EXPECT_GE(second, kTypical / 2);
    EXPECT_LE(second, kTypical * 2);
    differs |= second != each->delay_at(0, point);
    EXPECT_EQ(both->delay_at(1, point), each->delay_at(1, point));
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace tributary::lab
