// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked values first, then values that do not fit, then the guarantee that sums
// cannot overflow. Last, every vector variant against plain C++ on adversarial and random bit
// patterns.
#include "host/formats/number_format.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/byte_order.h"
#include "host/formats/number_format_kernels.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
constexpr float kFloatMax = std::numeric_limits<float>::max();
constexpr float kBelowTwoTo31 = 2147483520.0F;  // The largest float below 2^31.
constexpr uint32_t kSourcesMax = 256;

int32_t lane_at(const std::vector<std::byte>& lanes, size_t index) {
  return static_cast<int32_t>(load_be<uint32_t>(lanes.data() + 4 * index));
}

TEST(NumberFormat, FixedValuesMatchHandWorkedOnes) {
  EXPECT_EQ(to_fixed(1.0F, 1e8F), 100'000'000);
  EXPECT_EQ(to_fixed(-0.25F, 1e8F), -25'000'000);
  EXPECT_EQ(to_fixed(-0.0F, 1e8F), 0);
  EXPECT_EQ(to_fixed(kDenormal, 1e8F), 0);
  EXPECT_EQ(to_fixed(0.5F, 1.0F), 0);  // Ties go to the even neighbour.
  EXPECT_EQ(to_fixed(1.5F, 1.0F), 2);
  EXPECT_EQ(to_fixed(-2.5F, 1.0F), -2);
  EXPECT_EQ(to_fixed(kBelowTwoTo31, 1.0F), 2'147'483'520);

  EXPECT_EQ(from_fixed(100'000'000, 1e8F, 1), 1.0F);
  EXPECT_EQ(from_fixed(6, 2.0F, 3), 1.0F);
  EXPECT_EQ(from_fixed(-1, 0x1p-105F, 256), -0x1p97F);
  EXPECT_EQ(from_fixed(INT32_MIN, 1.0F, 1), -0x1p31F);
  EXPECT_EQ(from_fixed(INT32_MAX, 0x1p-105F, 1), kInfinity);
  EXPECT_FALSE(std::signbit(from_fixed(0, 1e8F, 3)));
}

TEST(NumberFormat, LanesAreBigEndian) {
  const std::array<float, 2> tensor{1.0F, -1.0F};
  std::vector<std::byte> lanes(8);
  EXPECT_EQ(pack_fixed(tensor, 258.0F, INT32_MAX, lanes.data()), Fit::kFits);
  const std::array<uint8_t, 8> expected{0, 0, 1, 2, 0xff, 0xff, 0xfe, 0xfe};  // +-258 = 0x102.
  EXPECT_EQ(std::memcmp(lanes.data(), expected.data(), 8), 0);

  std::array<float, 2> back{};
  unpack_fixed(lanes.data(), 258.0F, 2, back);
  EXPECT_EQ(back[0], 0.5F);
  EXPECT_EQ(back[1], -0.5F);
}

TEST(NumberFormat, IntegersKeepTheirBitsAndMeansRoundTowardZero) {
  const std::array<int32_t, 5> tensor{7, -7, INT32_MIN, INT32_MAX, 0x01020304};
  std::vector<std::byte> lanes(20);
  pack_int32(tensor, lanes.data());
  EXPECT_EQ(lanes[16], std::byte{1});
  EXPECT_EQ(lanes[19], std::byte{4});

  std::array<int32_t, 5> back{};
  for (const uint32_t no_division : {0U, 1U}) {
    unpack_int32(lanes.data(), no_division, back);
    EXPECT_EQ(back, tensor);
  }
  unpack_int32(lanes.data(), 2, back);
  EXPECT_EQ(back, (std::array<int32_t, 5>{3, -3, -1'073'741'824, 1'073'741'823, 0x00810182}));
}

TEST(NumberFormat, ExponentsMatchHandWorkedOnes) {
  const auto exponent_of = [](float value) {
    return int{block_exponent(std::array<float, 3>{0.0F, value, -0.0F})};
  };
  EXPECT_EQ(exponent_of(0.0F), kNoExponent);
  EXPECT_EQ(exponent_of(1.0F), 1);  // 1 < 2^1.
  EXPECT_EQ(exponent_of(-1.5F), 1);
  EXPECT_EQ(exponent_of(std::nextafter(1.0F, 0.0F)), 0);
  EXPECT_EQ(exponent_of(0x1p-126F), -125);
  EXPECT_EQ(exponent_of(kDenormal), -126);
  EXPECT_EQ(exponent_of(0x1p126F), 127);
  EXPECT_EQ(exponent_of(-kFloatMax), 127);
  EXPECT_EQ(exponent_of(kInfinity), 127);
  EXPECT_EQ(exponent_of(kNan), 127);
  EXPECT_EQ(block_exponent({}), kNoExponent);

  EXPECT_EQ(scale_for_exponent(0, 1), 0x1p31F);    // (1 - 2^-24) * 2^31 is the largest lane.
  EXPECT_EQ(scale_for_exponent(1, 4), 0x1p28F);    // 4 lanes below 2^29.
  EXPECT_EQ(scale_for_exponent(0, 3), 0x1p29F);    // 3 * 2^29 < 2^31 < 3 * 2^30.
  EXPECT_EQ(scale_for_exponent(0, 256), 0x1p22F);  // 2^23 - 0.5 would round up to 2^23.
  EXPECT_EQ(scale_for_exponent(127, 1), 0x1p-97F);
  EXPECT_EQ(scale_for_exponent(-126, 1), 0x1p157);
  EXPECT_EQ(scale_for_exponent(kNoExponent, 9), 1.0F);
}

TEST(NumberFormat, OverflowIsClampedAndReported) {
  struct Case {
    float value;
    float scale;
    int32_t limit;
    Fit fit;
    int32_t lane;
  };
  const std::array cases{
      Case{10.0F, 1.0F, 10, Fit::kFits, 10},
      Case{10.5F, 1.0F, 10, Fit::kFits, 10},  // Ties to even, so still 10.
      Case{-10.75F, 1.0F, 10, Fit::kOverflows, -10},
      Case{11.0F, 1.0F, 10, Fit::kOverflows, 10},
      Case{0.25F, 1.0F, 0, Fit::kFits, 0},
      Case{kBelowTwoTo31, 1.0F, INT32_MAX, Fit::kFits, 2'147'483'520},
      Case{0x1p31F, 1.0F, INT32_MAX, Fit::kOverflows, INT32_MAX},
      Case{-0x1p31F, 1.0F, INT32_MAX, Fit::kOverflows, -INT32_MAX},
      Case{1e30F, 1e30F, 5, Fit::kOverflows, 5},  // The product is infinite, the value is not.
      Case{kInfinity, 1.0F, 5, Fit::kNotFinite, 5},
      Case{-kInfinity, 1.0F, INT32_MAX, Fit::kNotFinite, -INT32_MAX},
      Case{kNan, 1e8F, 5, Fit::kNotFinite, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.value << " * " << c.scale << ", limit " << c.limit);
    // Each position is once in the middle of a vector and once in the tail after the last vector.
    for (const size_t position : {5U, 35U}) {
      std::vector<float> tensor(37, 0.0F);
      tensor[position] = c.value;
      std::vector<std::byte> lanes(4 * tensor.size());
      EXPECT_EQ(pack_fixed(tensor, c.scale, c.limit, lanes.data()), c.fit);
      EXPECT_EQ(lane_at(lanes, position), c.lane);
      EXPECT_EQ(lane_at(lanes, position - 1), 0);
    }
  }
}

TEST(NumberFormat, CountsElementsThatBecomeZero) {
  std::vector<std::byte> lanes(4 * 40);
  Underflow counted;
  // 0.5 rounds to the even 0, and 0.75 to 1. Zeros of either sign are no underflow.
  const std::array tensor{0.5F, -0.5F, 0.75F, 0.0F, -0.0F, kDenormal, 7.0F};
  EXPECT_EQ(pack_fixed(tensor, 1.0F, 100, lanes.data(), &counted), Fit::kFits);
  EXPECT_EQ(counted, (Underflow{.nonzero = 5, .underflowed = 3}));
  EXPECT_EQ(pack_fixed(std::array{2.0F, 3.0F}, 1.0F, 100, lanes.data(), &counted), Fit::kFits);
  EXPECT_EQ(counted, (Underflow{.nonzero = 7, .underflowed = 3}));  // Added.
  const std::vector<float> small(37, 0.25F);                        // Vectors and their tail.
  EXPECT_EQ(pack_fixed(small, 1.0F, 100, lanes.data(), &counted), Fit::kFits);
  EXPECT_EQ(counted, (Underflow{.nonzero = 44, .underflowed = 40}));
  EXPECT_EQ(pack_fixed({}, 1.0F, 100, lanes.data(), &counted), Fit::kFits);
  EXPECT_EQ(counted, (Underflow{.nonzero = 44, .underflowed = 40}));
}

TEST(NumberFormat, NonFiniteValuesOutrankOverflow) {
  std::vector<std::byte> lanes(12);
  EXPECT_EQ(pack_fixed(std::array{kNan, 99.0F, 1.0F}, 1.0F, 5, lanes.data()), Fit::kNotFinite);
  EXPECT_EQ(pack_fixed(std::array{99.0F, 1.0F, kInfinity}, 1.0F, 5, lanes.data()), Fit::kNotFinite);
  EXPECT_EQ(pack_fixed({}, 1.0F, 5, lanes.data()), Fit::kFits);
}

TEST(NumberFormat, SumOfLimitsNeverOverflows) {
  EXPECT_EQ(lane_magnitude_max(0), INT32_MAX);
  EXPECT_EQ(lane_magnitude_max(1), INT32_MAX);
  EXPECT_EQ(lane_magnitude_max(2), 1'073'741'823);
  EXPECT_EQ(lane_magnitude_max(256), 8'388'607);
  for (uint32_t sources = 1; sources <= kSourcesMax; sources++) {
    const int64_t limit = lane_magnitude_max(sources);
    EXPECT_LE(limit * sources, INT32_MAX);
    EXPECT_GT((limit + 1) * sources, INT32_MAX);
  }
}

TEST(NumberFormat, ExponentGivesTheLargestScaleWithoutOverflow) {
  std::vector<std::byte> lanes(4);
  for (int32_t exponent = -126; exponent <= 127; exponent++) {
    const float largest =
        exponent == 127 ? kFloatMax : std::nextafter(std::ldexp(1.0F, exponent), 0.0F);
    const auto narrow = static_cast<int8_t>(exponent);
    ASSERT_EQ(block_exponent(std::array{largest}), narrow);
    for (uint32_t sources = 1; sources <= kSourcesMax; sources++) {
      const double scale = scale_for_exponent(narrow, sources);
      ASSERT_EQ(pack_fixed(std::array{largest}, scale, lane_magnitude_max(sources), lanes.data()),
                Fit::kFits)
          << "exponent " << exponent << ", sources " << sources;
      ASSERT_LE(int64_t{lane_at(lanes, 0)} * sources, INT32_MAX);
      if (exponent == -126) continue;  // Subnormal numbers have fewer bits to round up.
      const double twice = std::rint(static_cast<double>(largest) * 2 * scale);
      ASSERT_GT(twice * sources, INT32_MAX) << "exponent " << exponent << ", sources " << sources;
    }
  }
}

/// Returns any float: mostly ordinary sizes, some at the edges, some arbitrary bits.
float any_float(Prng& prng) {
  constexpr std::array kEdges{0.0F,      -0.0F,          kDenormal, -kDenormal, 0x1p31F,
                              -0x1p31F,  kBelowTwoTo31,  kInfinity, -kInfinity, kNan,
                              kFloatMax, 8388607.5F,     0.5F,      -1.5F,      2147483392.0F,
                              0x1p-126F, -kBelowTwoTo31, 21.474836F};
  switch (prng.below(8)) {
    case 0:
      return kEdges[prng.below(kEdges.size())];
    case 1:
      return std::bit_cast<float>(prng.any_u32());
    default:
      return static_cast<float>(prng.any_i32()) * 0x1p-35F;
  }
}

/// Compares one variant with plain C++ on one tensor. Lanes start at an odd address, and the memory
/// behind them must not change.
void expect_same_bits(const NumberFormatKernels& kernels, const std::vector<float>& tensor,
                      float scale, uint32_t divisor) {
  const NumberFormatKernels& plain = number_format_kernels().front();
  const size_t count = tensor.size();
  const size_t offset = count % 5;
  std::vector<std::byte> expected(4 * count + 8, std::byte{0x5a});
  std::vector<std::byte> actual = expected;
  ASSERT_EQ(plain.pack_fixed(tensor.data(), count, scale, expected.data() + offset),
            kernels.pack_fixed(tensor.data(), count, scale, actual.data() + offset));
  ASSERT_EQ(expected, actual);
  ASSERT_EQ(plain.count_underflow(tensor.data(), expected.data() + offset, count),
            kernels.count_underflow(tensor.data(), actual.data() + offset, count));
  ASSERT_EQ(plain.magnitude_bits_max(tensor.data(), count),
            kernels.magnitude_bits_max(tensor.data(), count));

  const double factor = 1.0 / (static_cast<double>(scale) * divisor);
  std::vector<float> floats_expected(count + 1, -1.0F);
  std::vector<float> floats_actual = floats_expected;
  plain.unpack_fixed(expected.data() + offset, count, factor, floats_expected.data());
  kernels.unpack_fixed(expected.data() + offset, count, factor, floats_actual.data());
  ASSERT_EQ(std::memcmp(floats_expected.data(), floats_actual.data(), 4 * (count + 1)), 0);

  // The tensor's bits, taken as lanes, can be any integer.
  const std::byte* words = std::as_bytes(std::span(tensor)).data();
  std::vector<int32_t> divided_expected(count + 1, -1);
  std::vector<int32_t> divided_actual = divided_expected;
  plain.divide_lanes(words, count, divisor, divided_expected.data());
  kernels.divide_lanes(words, count, divisor, divided_actual.data());
  ASSERT_EQ(divided_expected, divided_actual);
  plain.swap_words(words, count, expected.data() + offset);
  kernels.swap_words(words, count, actual.data() + offset);
  ASSERT_EQ(expected, actual);
}

TEST(NumberFormat, EveryVariantMatchesPlainCodeBitForBit) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr std::array kScales{1.0F,      1e8F,   3.0e7F,  0x1p127F,
                               0x1p-105F, 1e-30F, 0x1p31F, 12345.678F};
  constexpr uint32_t kStepCount = 3000;
  for (uint32_t step = 0; step < kStepCount; step++) {
    std::vector<float> tensor(prng.below(100));
    for (float& value : tensor) value = any_float(prng);
    const float scale = kScales[prng.below(kScales.size())];
    const uint32_t divisor = 1 + (prng.chance(0.5) ? prng.below(kSourcesMax) : prng.any_u32() / 2);
    for (const NumberFormatKernels& kernels : number_format_kernels()) {
      SCOPED_TRACE(::testing::Message() << kernels.name << ", step " << step);
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(kernels, tensor, scale, divisor));
    }
  }
}

TEST(NumberFormat, NarrowLanesAreLimitedAndKeepTheirSign) {
  const std::array<int32_t, 8> values{0, 1, -1, 32767, 32768, -32768, INT32_MAX, INT32_MIN};
  const std::array<int32_t, 8> limited{0, 1, -1, 32767, 32767, -32767, 32767, -32767};
  for (const NumberFormatKernels& kernels : number_format_kernels()) {
    SCOPED_TRACE(kernels.name);
    for (size_t count = 0; count < 50; count++) {
      std::vector<std::byte> lanes(4 * count + 4), narrow(2 * count + 2, std::byte{0x77});
      for (size_t i = 0; i < count; i++) {
        store_be(&lanes[4 * i], static_cast<uint32_t>(values[i % values.size()]));
      }
      kernels.narrow_lanes(lanes.data(), count, narrow.data());
      EXPECT_EQ(narrow[2 * count], std::byte{0x77});
      lanes.assign(lanes.size(), std::byte{0x77});
      kernels.widen_lanes(narrow.data(), count, lanes.data());
      EXPECT_EQ(lanes[4 * count], std::byte{0x77});
      for (uint32_t i = 0; i < count; i++) {
        ASSERT_EQ(lane_at(lanes, i), limited[i % limited.size()]) << i << " of " << count;
      }
    }
  }
}

TEST(NumberFormat, NarrowScaleLeavesFifteenBits) {
  EXPECT_EQ(narrow_scale(0), 0x1p15);
  EXPECT_EQ(narrow_scale(-126), 0x1p141);
  EXPECT_EQ(narrow_scale(126), 0x1p-111);
  EXPECT_EQ(narrow_scale(127), 0x1p-113);  // It stands for values up to 2^128.
  EXPECT_EQ(narrow_scale(kNoExponent), 1.0);
}

TEST(NumberFormat, QuotientsAtTheEdgesAreExactInEveryVariant) {
  for (const NumberFormatKernels& kernels : number_format_kernels()) {
    for (uint32_t divisor = 1; divisor <= kSourcesMax; divisor++) {
      const int64_t multiple = INT32_MAX / divisor * int64_t{divisor};
      std::vector<int32_t> tensor;
      for (const int64_t value :
           {multiple - 1, multiple, -multiple, 1 - multiple, int64_t{INT32_MIN},
            int64_t{divisor} - 1, int64_t{divisor}, -int64_t{divisor}}) {
        tensor.push_back(static_cast<int32_t>(value));
      }
      std::vector<std::byte> lanes(4 * tensor.size());
      pack_int32(tensor, lanes.data());
      std::vector<int32_t> quotients(tensor.size());
      kernels.divide_lanes(lanes.data(), tensor.size(), divisor, quotients.data());
      for (size_t i = 0; i < tensor.size(); i++) {
        ASSERT_EQ(quotients[i], int64_t{tensor[i]} / int64_t{divisor}) << kernels.name;
      }
    }
  }
}

TEST(NumberFormat, RandomSumsMatchExactSums) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr uint32_t kElementCount = 50;
  for (uint32_t step = 0; step < 300; step++) {
    const uint32_t sources = 1 + prng.below(kSourcesMax);
    const int32_t size = static_cast<int32_t>(prng.below(120)) - 60;
    std::vector<std::vector<float>> tensors(sources, std::vector<float>(kElementCount));
    int8_t exponent = kNoExponent;
    for (auto& tensor : tensors) {
      for (float& value : tensor) value = std::ldexp(static_cast<float>(prng.any_i32()), size - 31);
      exponent = std::max(exponent, block_exponent(tensor));
    }
    const double scale = scale_for_exponent(exponent, sources);
    std::array<int64_t, kElementCount> sums{};
    std::array<double, kElementCount> model{};
    std::vector<std::byte> lanes(4 * kElementCount);
    for (const auto& tensor : tensors) {
      ASSERT_EQ(pack_fixed(tensor, scale, lane_magnitude_max(sources), lanes.data()), Fit::kFits);
      for (uint32_t i = 0; i < kElementCount; i++) {
        sums[i] += lane_at(lanes, i);
        model[i] += static_cast<double>(tensor[i]);
      }
    }
    for (uint32_t i = 0; i < kElementCount; i++) {
      ASSERT_LE(std::abs(sums[i]), INT32_MAX) << "step " << step;
      const double mean =
          static_cast<double>(from_fixed(static_cast<int32_t>(sums[i]), scale, sources));
      // Each source rounds by at most half a unit of the scale; the result to 24 bits.
      const double bound = 0.5 / scale + std::abs(mean) * 0x1p-23;
      ASSERT_NEAR(mean, model[i] / sources, bound) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace tributary::host
