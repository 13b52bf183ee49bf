// SPDX-License-Identifier: Apache-2.0
// Method: the texts of explanations by hand. Then the trains of Figures 12 and 13 against trains of
// a fourth, with the same stragglers.
#include "lab/figures/straggling_systems.h"

#include <gtest/gtest.h>

#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using testing::run_well;

TEST(StragglingSystems, LateWorkersAreNamedWhereMoreSumsLackOneThanSleepsExplain) {
  EXPECT_NEAR(asleep_share(0.16), 0.407296, 1e-12);  // 1 - 0.84^3
  EXPECT_EQ(when_timeouts(CatchUp::kCompute, {.degraded = 0.40}, 0.16), "While a server sleeps");
  EXPECT_EQ(when_timeouts(CatchUp::kCompute, {.degraded = 0.97}, 0.16),
            "A worker that computes every iteration stays late after its sleep: 97 % of the sums "
            "lack a worker, while one falls asleep in 41 % of the iterations. As long as it is "
            "late");
  // A sleep covers several iterations of workers that do not wait.
  EXPECT_EQ(when_timeouts(CatchUp::kSkip, {.degraded = 0.55}, 0.16), "While a server sleeps");
}

TEST(StragglingSystems, TextsNameTheRunsThatTheSleeperLeft) {
  const BlockShares left{.degraded = 0.97, .dropped_out = 0.8, .dropout_iteration = 42, .runs = 5};
  EXPECT_EQ(when_timeouts(CatchUp::kCompute, left, 0.16),
            "A worker that computes every iteration stays late after its sleep: 97 % of the sums "
            "lack a worker, while one falls asleep in 41 % of the iterations. In 4 of 5 runs the "
            "sleeper leaves the job, more than 64 windows behind. As long as it is late or gone");
  EXPECT_EQ(when_timeouts(CatchUp::kSkip, left, 0.16),
            "While a server sleeps, and after it has left the job in 4 of 5 runs");
  const Sample sample{.count = 5, .mean = 1.6, .standard_error = 0.04};
  EXPECT_EQ(value_with(kFavourableSettings[0], sample, left).setting,
            "same sleeper, timeout 1 ms, 700 ms of computation (the sleeper leaves the job in 4 of "
            "5 runs)");
  EXPECT_EQ(value_with(kFavourableSettings[0], sample, {}).setting, kFavourableSettings[0].name);
}

// Three points, each with 0.16 sleeps of (0.5 + 2) / 2 iterations.
TEST(StragglingSystems, SameSleeperBoundsTheSpeedUp) {
  EXPECT_DOUBLE_EQ(free_speedup(0.16), 1.60);
  EXPECT_DOUBLE_EQ(free_speedup(0.20), 1.75);
  EXPECT_EQ(cause_with(kFavourableSettings[0], {}),
            "With the same sleeper always, p = 16 % allows 1.60 on average: where all wait, 3 "
            "delay points add 0.60 iterations of sleep to each iteration, and mitigation saves no "
            "more. Timeouts and the seeds' draws account for the rest.");
}

TEST(StragglingSystems, SettingsNameAProbabilityThatThePaperLacks) {
  const Sample sample{.count = 20, .mean = 1.8, .standard_error = 0.04};
  EXPECT_EQ(value_with(kFavourableSettings[0], sample, {}).unlike_paper, "");
  EXPECT_EQ(value_with(kFavourableSettings[1], sample, {}).unlike_paper, "p = 20 %");
  EXPECT_EQ(value_with(kFavourableSettings[1], sample, {}).here, 1.8);
  EXPECT_EQ(value_with(kFavourableSettings[1], sample, {}).standard_error, 0.04);
}

class TrainsOfModel : public ::testing::TestWithParam<Model> {};

TEST_P(TrainsOfModel, ChangeTwoIterationsLittle) {
  Scenario scenario = scenario_of(kStragglingSystems[kTrioCompute], GetParam(), 2);
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = 0.3;
  const double coarse = in_seconds(run_well(scenario).mean_iteration);
  scenario.train /= 4;
  const RunResult result = run_well(scenario);
  const double fine = in_seconds(result.mean_iteration);
  EXPECT_GT(fine, 1.05 * in_seconds(result.typical_iteration)) << "nobody sleeps";
  // A window more or less that waits for a timeout. Means over many iterations differ by less.
  EXPECT_NEAR(coarse, fine, 0.03 * fine);
}

INSTANTIATE_TEST_SUITE_P(StragglingSystems, TrainsOfModel,
                         ::testing::Values(Model::kResnet50, Model::kDensenet161, Model::kVgg11),
                         [](const auto& model) { return std::string(name_of(model.param)); });

}  // namespace
}  // namespace tributary::lab
