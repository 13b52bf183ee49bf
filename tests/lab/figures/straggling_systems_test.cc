// SPDX-License-Identifier: Apache-2.0
// Method: the trains of Figures 12 and 13 against trains of a fourth, with the same stragglers.
#include "lab/figures/straggling_systems.h"

#include <gtest/gtest.h>

#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using testing::run_well;

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
