// SPDX-License-Identifier: Apache-2.0
// Method: limits by hand; then a dense grid beside the C library in float64, and the grid's bits,
// which are the same on every machine and compiler.
#include "lab/training/float_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "net/digest.h"

namespace tributary::lab {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

/// Returns values from -limit to limit. Their number is odd, so that vectors leave some over.
std::vector<float> grid(float limit) {
  constexpr uint32_t kCount = 100'003;
  std::vector<float> values(kCount);
  for (uint32_t i = 0; i < kCount; i++) {
    values[i] = limit * (2.0F * static_cast<float>(i) / static_cast<float>(kCount - 1) - 1.0F);
  }
  return values;
}

uint64_t hash_of(std::span<const float> values) { return net::hash_bytes(std::as_bytes(values)); }

TEST(FloatFunctions, ExpHasItsLimits) {
  std::vector<float> values{0.0F, -0.0F, 1.0F, -kInfinity, kInfinity, kNotANumber};
  exp_in_place(values);
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], 1.0F);
  EXPECT_FLOAT_EQ(values[2], 2.7182818F);
  EXPECT_FLOAT_EQ(values[3], std::exp(-87.0F));
  EXPECT_FLOAT_EQ(values[4], std::exp(88.0F));
  EXPECT_TRUE(std::isnan(values[5]));
}

TEST(FloatFunctions, TanhHasItsLimits) {
  std::vector<float> values{0.0F, -0.0F, 0.5493061F, -kInfinity, kInfinity, kNotANumber};
  tanh_in_place(values);
  EXPECT_EQ(values[0], 0.0F);
  EXPECT_EQ(values[1], 0.0F);
  EXPECT_FLOAT_EQ(values[2], 0.5F);  // Half of ln 3.
  EXPECT_EQ(values[3], -1.0F);
  EXPECT_EQ(values[4], 1.0F);
  EXPECT_TRUE(std::isnan(values[5]));
}

TEST(FloatFunctions, ExpIsCloseOnAGrid) {
  const std::vector<float> from = grid(87.0F);
  std::vector<float> to = from;
  exp_in_place(to);
  double error = 0;
  for (size_t i = 0; i < from.size(); i++) {
    error = std::max(error, std::abs(to[i] / std::exp(double{from[i]}) - 1.0));
  }
  EXPECT_LT(error, 2e-7);
  EXPECT_EQ(hash_of(to), 4571680499570556644U);
}

TEST(FloatFunctions, TanhIsCloseOnAGrid) {
  const std::vector<float> from = grid(12.0F);
  std::vector<float> to = from;
  tanh_in_place(to);
  double error = 0;
  for (size_t i = 0; i < from.size(); i++) {
    error = std::max(error, std::abs(double{to[i]} - std::tanh(double{from[i]})));
  }
  EXPECT_LT(error, 2e-7);
  EXPECT_EQ(hash_of(to), 17696610398432693191U);
}

}  // namespace
}  // namespace tributary::lab
