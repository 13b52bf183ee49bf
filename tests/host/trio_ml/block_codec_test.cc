// SPDX-License-Identifier: Apache-2.0
// Method: blocks worked by hand, then values that do not fit, then random blocks against the scalar
// conversions of host/formats/number_format.h.
#include "host/trio_ml/block_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/byte_order.h"
#include "host/formats/half_format.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using ::testing::ElementsAre;
using wire::ElementFormat;

constexpr uint32_t kGradients = 4;

/// Stores the lanes of a packet as bytes.
class Lanes {
 public:
  std::byte* bytes() { return bytes_.data(); }
  [[nodiscard]] int32_t at(uint32_t lane) const {
    return static_cast<int32_t>(load_be<uint32_t>(&bytes_[lane * sizeof(int32_t)]));
  }
  void set(uint32_t lane, int32_t value) {
    store_be(&bytes_[lane * sizeof(int32_t)], static_cast<uint32_t>(value));
  }

 private:
  std::array<std::byte, kGradients * sizeof(int32_t)> bytes_{};
};

BlockCodec open_codec(uint32_t world) {
  BlockCodec codec(world);
  codec.open(kGradients);
  return codec;
}

TEST(BlockCodec, IntegersAndTheirMean) {
  std::vector<int32_t> tensor{1, 2, 3, 4, 50, 60};
  Transfer transfer;
  transfer.integers = tensor;
  transfer.op = ReduceOp::kMean;
  BlockCodec codec = open_codec(/*world=*/4);
  Lanes lanes;
  EXPECT_EQ(codec.write(transfer, /*block=*/1, {}, lanes.bytes()), Fit::kFits);
  EXPECT_EQ(lanes.at(0), 50);
  EXPECT_EQ(lanes.at(1), 60);
  lanes.set(0, 90);
  lanes.set(1, 99);
  codec.read(transfer, /*block=*/1, 0, /*sources=*/3, lanes.bytes());
  EXPECT_THAT(tensor, ElementsAre(1, 2, 3, 4, 30, 33));  // Divided by the sources, not the world.
}

TEST(BlockCodec, FloatsAtAFixedScale) {
  std::vector<float> tensor{1.5F, -2.0F};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kFixedScale;
  transfer.scale = 100.0F;
  BlockCodec codec = open_codec(/*world=*/2);
  Lanes lanes;
  EXPECT_EQ(codec.write(transfer, 0, {}, lanes.bytes()), Fit::kFits);
  EXPECT_EQ(lanes.at(0), 150);
  EXPECT_EQ(lanes.at(1), -200);
  lanes.set(0, 350);
  codec.read(transfer, 0, 0, /*sources=*/2, lanes.bytes());
  EXPECT_THAT(tensor, ElementsAre(3.5F, -2.0F));
}

TEST(BlockCodec, FloatsWithABlockExponent) {
  std::vector<float> tensor{0.75F, -0.5F};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kBlockExponent;
  BlockCodec codec = open_codec(/*world=*/2);
  const int8_t exponent = codec.exponent_of(transfer, 0);
  EXPECT_EQ(exponent, 0);  // 2^-1 <= 0.75 < 2^0.
  Lanes lanes;
  EXPECT_EQ(codec.write(transfer, 0, {exponent, exponent}, lanes.bytes()), Fit::kFits);
  EXPECT_EQ(lanes.at(0), to_fixed(0.75F, scale_for_exponent(exponent, 2)));
  codec.read(transfer, 0, exponent, /*sources=*/1, lanes.bytes());
  EXPECT_THAT(tensor, ElementsAre(0.75F, -0.5F));
}

TEST(BlockCodec, HalvesAreWidened) {
  constexpr uint16_t kOne = 0x3c00;       // float16 1.0.
  constexpr uint16_t kMinusTwo = 0xc000;  // float16 -2.0.
  std::vector<uint16_t> tensor{kOne, kMinusTwo};
  Transfer transfer;
  transfer.halves = {.bits = tensor, .type = HalfType::kFloat16};
  transfer.format = ElementFormat::kBlockExponent;
  BlockCodec codec = open_codec(/*world=*/1);
  const int8_t exponent = codec.exponent_of(transfer, 0);
  EXPECT_EQ(exponent, 2);  // 2.0 < 2^2.
  Lanes lanes;
  EXPECT_EQ(codec.write(transfer, 0, {exponent, exponent}, lanes.bytes()), Fit::kFits);
  EXPECT_EQ(lanes.at(1), to_fixed(-2.0F, scale_for_exponent(exponent, 1)));
  tensor = {0, 0};
  codec.read(transfer, 0, exponent, /*sources=*/1, lanes.bytes());
  EXPECT_THAT(tensor, ElementsAre(kOne, kMinusTwo));
}

// Four ranks: the aggregator divides by 4, so a result's unit is four units of a contribution.
TEST(BlockCodec, SixteenBitLanes) {
  std::vector<float> tensor{1.0F, -0.5F, std::nextafter(2.0F, 0.0F), 0x1.8p-14F, -2.0F};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kBlockExponent16;
  BlockCodec codec(/*world=*/4);
  codec.open(kGradients, /*narrow_gradients=*/5);
  tensor[4] = -tensor[2];
  EXPECT_EQ(codec.exponent_of(transfer, 0), 1);
  std::array<std::byte, 10> lanes;
  const auto at = [&lanes](uint32_t i) {
    return static_cast<int16_t>(load_be<uint16_t>(&lanes[2 * i]));
  };
  EXPECT_EQ(codec.write(transfer, 0, {1, 1}, lanes.data()), Fit::kFits);
  EXPECT_EQ(at(0), 1 << 14);
  EXPECT_EQ(at(1), -(1 << 13));
  EXPECT_EQ(at(2), 32767);  // It rounds to 32768, which int16 cannot hold.
  EXPECT_EQ(at(3), 2);      // 1.5 units: a tie.
  EXPECT_EQ(at(4), -32767);
  for (uint32_t i = 0; i < 5; i++) store_be(&lanes[2 * i], static_cast<uint16_t>(i - 2));
  codec.read(transfer, 0, /*exponent=*/1, /*sources=*/4, lanes.data());
  EXPECT_THAT(tensor, ElementsAre(-0x1p-11F, -0x1p-12F, 0.0F, 0x1p-12F, 0x1p-11F));
  transfer.op = ReduceOp::kMean;
  codec.read(transfer, 0, /*exponent=*/1, /*sources=*/2, lanes.data());
  EXPECT_THAT(tensor, ElementsAre(-0x1p-12F, -0x1p-13F, 0.0F, 0x1p-13F, 0x1p-12F));
}

TEST(BlockCodec, SixteenBitLanesReportWhatAnotherExponentCosts) {
  std::vector<float> tensor{1.0F};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kBlockExponent16;
  BlockCodec codec = open_codec(/*world=*/4);
  Lanes lanes;
  EXPECT_EQ(codec.write(transfer, 0, {1, 1}, lanes.bytes()), Fit::kFits);
  // The element is exact, but the sum will be rounded to a larger unit.
  EXPECT_EQ(codec.write(transfer, 0, {8, 0}, lanes.bytes()), Fit::kImprecise);
  tensor[0] = 0.0F;
  EXPECT_EQ(codec.write(transfer, 0, {8, 0}, lanes.bytes()), Fit::kFits);
  tensor[0] = 300.0F;
  EXPECT_EQ(codec.write(transfer, 0, {8, 0}, lanes.bytes()), Fit::kOverflows);
  tensor[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(codec.write(transfer, 0, {8, 0}, lanes.bytes()), Fit::kNotFinite);
}

TEST(BlockCodec, ReportsValuesThatDoNotFitASumOfAllRanks) {
  std::vector<float> tensor{1.5e9F};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kFixedScale;
  transfer.scale = 1.0F;
  Lanes lanes;
  BlockCodec one = open_codec(/*world=*/1);
  EXPECT_EQ(one.write(transfer, 0, {}, lanes.bytes()), Fit::kFits);
  BlockCodec two = open_codec(/*world=*/2);  // 2 * 1.5e9 exceeds 2^31.
  EXPECT_EQ(two.write(transfer, 0, {}, lanes.bytes()), Fit::kOverflows);
  tensor[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(two.write(transfer, 0, {}, lanes.bytes()), Fit::kNotFinite);
}

TEST(BlockCodec, ReportsValuesThatAnExponentWithoutThisRankMakesCoarser) {
  std::vector<float> tensor{0x1.8p-21F, 0.0F};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kBlockExponent;
  BlockCodec codec = open_codec(/*world=*/4);  // 29 bits: exponent 8 has a unit of 2^-21.
  Lanes lanes;
  EXPECT_EQ(codec.write(transfer, 0, {8, kNoExponent}, lanes.bytes()), Fit::kImprecise);
  EXPECT_EQ(codec.write(transfer, 0, {8, 0}, lanes.bytes()), Fit::kImprecise);
  EXPECT_EQ(codec.write(transfer, 0, {8, 8}, lanes.bytes()), Fit::kFits);   // No rank missed it.
  EXPECT_EQ(codec.write(transfer, 0, {7, -1}, lanes.bytes()), Fit::kFits);  // Three units of 2^-22.
  tensor[0] = 0x1p-21F;
  EXPECT_EQ(codec.write(transfer, 0, {8, kNoExponent}, lanes.bytes()), Fit::kFits);
  tensor[0] = 0.0F;
  EXPECT_EQ(codec.write(transfer, 0, {8, kNoExponent}, lanes.bytes()), Fit::kFits);
  tensor[1] = 300.0F;
  EXPECT_EQ(codec.write(transfer, 0, {8, kNoExponent}, lanes.bytes()), Fit::kOverflows);
}

TEST(BlockCodec, SpoilsOneBlockOnly) {
  std::vector<float> tensor(kGradients + 2, 1.0F);
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kFixedScale;
  const BlockCodec codec = open_codec(/*world=*/2);
  codec.spoil(transfer, 1);
  for (uint32_t i = 0; i < tensor.size(); i++) EXPECT_EQ(std::isnan(tensor[i]), i >= kGradients);
  std::vector<uint16_t> halves(kGradients + 1, 0x3c00);
  Transfer of_halves;
  of_halves.halves = {.bits = halves, .type = HalfType::kFloat16};
  of_halves.format = ElementFormat::kBlockExponent;
  codec.spoil(of_halves, 0);
  EXPECT_TRUE(std::isnan(widen_half(halves[0], HalfType::kFloat16)));
  EXPECT_EQ(halves[kGradients], 0x3c00);
}

TEST(BlockCodec, RandomBlocksMatchTheScalarConversions) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 1000; step++) {
    const uint32_t sources = 1 + prng.below(8);
    std::vector<float> tensor(1 + prng.below(11));
    for (float& value : tensor) value = static_cast<float>(prng.below(2000)) - 1000.0F;
    const std::vector<float> given = tensor;
    Transfer transfer;
    transfer.floats = tensor;
    transfer.format = ElementFormat::kFixedScale;
    transfer.scale = 10.0F;
    transfer.op = prng.chance(0.5) ? ReduceOp::kMean : ReduceOp::kSum;
    BlockCodec codec = open_codec(sources);
    const uint32_t blocks = (static_cast<uint32_t>(tensor.size()) + kGradients - 1) / kGradients;
    for (uint32_t block = 0; block < blocks; block++) {
      Lanes lanes;
      ASSERT_EQ(codec.write(transfer, block, {}, lanes.bytes()), Fit::kFits);
      codec.read(transfer, block, 0, sources, lanes.bytes());
    }
    const uint32_t divisor = transfer.op == ReduceOp::kMean ? sources : 1;
    for (size_t i = 0; i < given.size(); i++) {
      ASSERT_EQ(tensor[i], from_fixed(to_fixed(given[i], 10.0F), 10.0F, divisor))
          << "step " << step;
    }
  }
}

}  // namespace
}  // namespace tributary::host
