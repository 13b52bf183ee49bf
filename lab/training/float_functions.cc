// SPDX-License-Identifier: Apache-2.0
#include "lab/training/float_functions.h"

#include <bit>
#include <cstdint>

namespace tributary::lab {
namespace {

/// Limits `value` to `least` … `most`. A NaN stays a NaN.
inline float within(float value, float least, float most) {
  const float raised = value < least ? least : value;
  return raised > most ? most : raised;
}

/// Returns e^x. @pre x is in -87 … 88, or a NaN.
inline float exponential(float x) {
  constexpr float kPerLn2 = 1.44269504F;
  // ln 2 as a sum: multiplied by n, the first part is exact.
  constexpr float kLn2High = 0x1.62e4p-1F;
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  // Adding it rounds to a whole number, which the lowest bits of the sum then hold.
  constexpr float kRounder = 0x1.8p23F;
  constexpr uint32_t kExponentBias = 127;
  constexpr uint32_t kMantissaBits = 23;

  const float rounded = x * kPerLn2 + kRounder;
  const float n = rounded - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float sum = 1.0F / 5040;
  sum = sum * r + 1.0F / 720;
  sum = sum * r + 1.0F / 120;
  sum = sum * r + 1.0F / 24;
  sum = sum * r + 1.0F / 6;
  sum = sum * r + 1.0F / 2;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  return sum *
         std::bit_cast<float>((std::bit_cast<uint32_t>(rounded) + kExponentBias) << kMantissaBits);
}

}  // namespace

void exp_in_place(std::span<float> values) {
  for (float& value : values) value = exponential(within(value, -87.0F, 88.0F));
}

void tanh_in_place(std::span<float> values) {
  // From 9 on, a float cannot tell tanh from 1.
  for (float& value : values) {
    value = 1.0F - 2.0F / (exponential(2.0F * within(value, -9.5F, 9.5F)) + 1.0F);
  }
}

}  // namespace tributary::lab
