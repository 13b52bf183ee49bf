// SPDX-License-Identifier: Apache-2.0
// Method: two steps worked by hand.
#include "lab/training/adam.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tributary::lab {
namespace {

TEST(Adam, FirstStepIsTheRateAgainstTheGradientsSign) {
  Adam adam({.rate = 0.5F}, 3);
  std::vector<float> parameters{1.0F, 1.0F, 1.0F};
  adam.update(std::vector<float>{0.001F, -8.0F, 0.0F}, parameters);
  // Bias-corrected mean / sqrt(mean square) = g / |g|.
  EXPECT_NEAR(parameters[0], 0.5F, 1e-4);
  EXPECT_NEAR(parameters[1], 1.5F, 1e-4);
  EXPECT_EQ(parameters[2], 1.0F);
}

TEST(Adam, SecondStepUsesBothMeans) {
  Adam adam({.rate = 1.0F}, 1);
  std::vector<float> parameters{0.0F};
  adam.update(std::vector<float>{1.0F}, parameters);
  adam.update(std::vector<float>{3.0F}, parameters);
  // Mean: 0.9 * 0.1 + 0.1 * 3 = 0.39, corrected by 1 - 0.81.
  // Square: 0.999 * 0.001 + 0.001 * 9 = 0.009999, corrected by 1 - 0.998001.
  const double step = (0.39 / 0.19) / std::sqrt(0.009999 / 0.001999);
  EXPECT_NEAR(parameters[0], -1.0 - step, 1e-4);
}

}  // namespace
}  // namespace tributary::lab
