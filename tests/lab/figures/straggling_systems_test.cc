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
  EXPECT_EQ(when_timeouts(CatchUp::kCompute, 0.40, 0.16), "While a server sleeps");
  EXPECT_EQ(when_timeouts(CatchUp::kCompute, 0.97, 0.16),
            "A worker that computes every iteration stays late after its sleep: 97 % of the sums "
            "lack a worker, while one falls asleep in 41 % of the iterations. As long as it is "
            "late");
  // A sleep covers several iterations of workers that do not wait.
  EXPECT_EQ(when_timeouts(CatchUp::kSkip, 0.55, 0.16), "While a server sleeps");
}

TEST(StragglingSystems, SettingsNameAProbabilityThatThePaperLacks) {
  const Sample sample{.count = 20, .mean = 1.8, .standard_error = 0.04};
  EXPECT_EQ(value_with(kKindSettings[0], sample).unlike_paper, "");
  EXPECT_EQ(value_with(kKindSettings[1], sample).unlike_paper, "p = 20 %");
  EXPECT_EQ(value_with(kKindSettings[1], sample).here, 1.8);
  EXPECT_EQ(value_with(kKindSettings[1], sample).standard_error, 0.04);
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
