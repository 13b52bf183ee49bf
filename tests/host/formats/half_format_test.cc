// SPDX-License-Identifier: Apache-2.0
// Method: every 16-bit value, against the formats' definitions in double; every halfway point
// between neighbours and the doubles beside it, where rounding twice would show.
#include "host/formats/half_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/byte_order.h"
#include "base/prng.h"
#include "host/formats/number_format.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

struct Format {
  HalfType type;
  int fraction_bits;
  int bias;
  uint16_t infinity;  ///< All exponent bits.
};
constexpr Format kFloat16{HalfType::kFloat16, 10, 15, 0x7c00};
constexpr Format kBfloat16{HalfType::kBfloat16, 7, 127, 0x7f80};

/// The value by the definition; not for infinities and NaN.
double value_of(const Format& format, uint16_t bits) {
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> format.fraction_bits;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - format.bias - format.fraction_bits)
                               : std::ldexp(fraction + (1 << format.fraction_bits),
                                            exponent - format.bias - format.fraction_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

class HalfFormat : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(All, HalfFormat, ::testing::Values(kFloat16, kBfloat16));

TEST(HalfFormatByHand, KnownValuesConvert) {
  EXPECT_EQ(widen_half(0x3c00, HalfType::kFloat16), 1.0F);
  EXPECT_EQ(widen_half(0xc000, HalfType::kFloat16), -2.0F);
  EXPECT_EQ(widen_half(0x7bff, HalfType::kFloat16), 65504.0F);
  EXPECT_EQ(widen_half(0x0001, HalfType::kFloat16), 0x1p-24F);
  EXPECT_EQ(widen_half(0x3f80, HalfType::kBfloat16), 1.0F);
  EXPECT_EQ(widen_half(0x0001, HalfType::kBfloat16), 0x1p-133F);
  EXPECT_EQ(narrow_half(65519.999, HalfType::kFloat16), 0x7bff);  // Below halfway to 2^16.
  EXPECT_EQ(narrow_half(65520.0, HalfType::kFloat16), 0x7c00);
  EXPECT_EQ(narrow_half(1e300, HalfType::kFloat16), 0x7c00);
  EXPECT_EQ(narrow_half(-1e300, HalfType::kBfloat16), 0xff80);
  EXPECT_EQ(narrow_half(1e-300, HalfType::kFloat16), 0x0000);
  EXPECT_EQ(narrow_half(-1e-300, HalfType::kBfloat16), 0x8000);
  // 1 + 2^-11 is halfway to the next binary16; 2^-40 more is past it, but not for a float32.
  EXPECT_EQ(narrow_half(1.0 + 0x1p-11, HalfType::kFloat16), 0x3c00);
  EXPECT_EQ(narrow_half(1.0 + 0x1p-11 + 0x1p-40, HalfType::kFloat16), 0x3c01);
}

TEST_P(HalfFormat, EveryValueSurvivesARoundTrip) {
  const Format& format = GetParam();
  for (uint32_t i = 0; i <= UINT16_MAX; i++) {
    const auto bits = static_cast<uint16_t>(i);
    const float wide = widen_half(bits, format.type);
    const uint32_t magnitude = bits & 0x7fffU;
    if (magnitude > format.infinity) {
      ASSERT_TRUE(std::isnan(wide)) << i;
      const uint16_t back = narrow_half(static_cast<double>(wide), format.type);
      ASSERT_GT(back & 0x7fffU, format.infinity) << i;
      continue;
    }
    if (magnitude == format.infinity) {
      ASSERT_TRUE(std::isinf(wide)) << i;
    } else {
      ASSERT_EQ(static_cast<double>(wide), value_of(format, bits)) << i;
    }
    ASSERT_EQ(std::signbit(wide), bits >= 0x8000) << i;
    ASSERT_EQ(narrow_half(static_cast<double>(wide), format.type), bits) << i;
  }
}

TEST_P(HalfFormat, OnlyHalfwayPointsRoundToEven) {
  const Format& format = GetParam();
  const auto max = std::numeric_limits<double>::max();
  for (uint32_t sign : {0U, 0x8000U}) {
    for (uint32_t i = 0; i < format.infinity; i++) {
      const auto low = static_cast<uint16_t>(i | sign);
      const auto high = static_cast<uint16_t>(low + 1);  // The infinity, past the largest.
      const double from = std::fabs(value_of(format, low));
      // Where the infinity is, the next value would be one more step of the largest's.
      const double to = i + 1 == format.infinity
                            ? 2 * from - std::fabs(value_of(format, static_cast<uint16_t>(i - 1)))
                            : std::fabs(value_of(format, high));
      const double half = std::copysign((from + to) / 2, sign == 0 ? 1.0 : -1.0);
      const uint16_t even = (low & 1) == 0 ? low : high;
      ASSERT_EQ(narrow_half(half, format.type), even) << i;
      ASSERT_EQ(narrow_half(std::nextafter(half, 0.0), format.type), low) << i;
      ASSERT_EQ(narrow_half(std::nextafter(half, std::copysign(max, half)), format.type), high)
          << i;
    }
  }
}

TEST_P(HalfFormat, TensorsConvertElementByElement) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  const Format& format = GetParam();
  for (uint32_t round = 0; round < 200; round++) {
    const uint32_t count = prng.below(70);
    std::vector<uint16_t> halves(count);
    std::vector<std::byte> lanes(count * 4);
    for (uint32_t i = 0; i < count; i++) {
      halves[i] = static_cast<uint16_t>(prng.any_u32());
      store_be(&lanes[i * 4], prng.any_u32() >> prng.below(32));
    }
    std::vector<float> wide(count);
    widen_halves(halves, format.type, wide.data());
    const float scale = std::ldexp(1.0F, static_cast<int>(prng.below(60)) - 20);
    const uint32_t divisor = 1 + prng.below(5);
    std::vector<uint16_t> sums(count);
    unpack_halves(lanes.data(), scale, divisor, format.type, sums);
    for (uint32_t i = 0; i < count; i++) {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]),
                std::bit_cast<uint32_t>(widen_half(halves[i], format.type)));
      const auto lane = static_cast<int32_t>(load_be<uint32_t>(&lanes[i * 4]));
      ASSERT_EQ(sums[i],
                narrow_half(static_cast<double>(lane) * fixed_factor(scale, divisor), format.type));
    }
  }
}

}  // namespace
}  // namespace tributary::host
