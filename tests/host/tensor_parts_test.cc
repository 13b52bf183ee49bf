// SPDX-License-Identifier: Apache-2.0
// Method: cuts and outcomes by hand, then random cuts, which must be whole blocks and cover the
// tensor.
#include "host/tensor_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using ::testing::ElementsAre;

/// Returns the number of elements in each part.
std::vector<uint64_t> cut(uint64_t element_count, uint32_t gradients, uint32_t channels) {
  std::vector<uint64_t> counts;
  for (const TensorPart& part : tensor_parts(element_count, gradients, channels)) {
    counts.push_back(part.element_count);
  }
  return counts;
}

Outcome degraded_outcome(uint64_t blocks, uint64_t element_first, uint32_t element_count) {
  Outcome outcome;
  outcome.blocks = blocks;
  outcome.degraded.push_back(
      {.element_first = element_first, .element_count = element_count, .sources = {1}});
  return outcome;
}

/// Returns a failed outcome of two blocks.
Outcome failed_outcome(Status status, const char* text) {
  Outcome outcome;
  outcome.status = status;
  outcome.text = text;
  outcome.blocks = 2;
  return outcome;
}

TEST(TensorParts, PartsAreWholeBlocksOfEqualNumber) {
  // 1,005 blocks of 10 elements, the last one of 3 elements: 335 for each of three parts.
  EXPECT_THAT(cut(10'043, 10, 3), ElementsAre(3350, 3350, 3343));
  // With 1,006 blocks the first part has one more, with 1,007 also the second.
  EXPECT_THAT(cut(10'053, 10, 3), ElementsAre(3360, 3350, 3343));
  EXPECT_THAT(cut(10'070, 10, 3), ElementsAre(3360, 3360, 3350));
  EXPECT_EQ(tensor_parts(10'043, 10, 3)[2].element_first, 6700U);
}

TEST(TensorParts, FewBlocksMakeFewParts) {
  EXPECT_THAT(cut(0, 10, 4), ElementsAre(0));
  EXPECT_THAT(cut(1, 10, 4), ElementsAre(1));
  EXPECT_THAT(cut(630, 10, 4), ElementsAre(630));            // 63 blocks,
  EXPECT_THAT(cut(631, 10, 4), ElementsAre(320, 311));       // 64,
  EXPECT_THAT(cut(960, 10, 4), ElementsAre(320, 320, 320));  // 96.
  EXPECT_THAT(cut(1'000'000, 10, 1), ElementsAre(1'000'000));
}

TEST(TensorParts, TransferHoldsItsPartAndTheWholeLength) {
  std::array<float, 10> floats{};
  Transfer whole;
  whole.floats = floats;
  whole.op = ReduceOp::kMean;
  whole.format = wire::ElementFormat::kFixedScale;
  whole.scale = 3;
  whole.receive_only = true;
  const Transfer part = transfer_of(whole, {.element_first = 4, .element_count = 5});
  EXPECT_EQ(part.floats.data(), &floats[4]);
  EXPECT_EQ(part.element_count(), 5U);
  EXPECT_EQ(part.tensor_elements, 10U);
  EXPECT_EQ(part.op, ReduceOp::kMean);
  EXPECT_EQ(part.format, wire::ElementFormat::kFixedScale);
  EXPECT_EQ(part.scale, 3);
  EXPECT_TRUE(part.receive_only);

  std::array<uint16_t, 10> bits{};
  whole = Transfer{};
  whole.halves = {.bits = bits, .type = HalfType::kBfloat16};
  const Transfer half = transfer_of(whole, {.element_first = 9, .element_count = 1});
  EXPECT_EQ(half.halves.bits.data(), &bits[9]);
  EXPECT_EQ(half.halves.type, HalfType::kBfloat16);
  EXPECT_EQ(half.element_count(), 1U);
}

TEST(TensorParts, OutcomesMergeIntoOneTensors) {
  Outcome whole;
  add_outcome(whole, degraded_outcome(3, 20, 5), 0);
  add_outcome(whole, failed_outcome(Status::kOverflow, "large"), 25);
  add_outcome(whole, degraded_outcome(4, 10, 10), 45);
  EXPECT_EQ(whole.status, Status::kOverflow);
  EXPECT_EQ(whole.text, "large");
  EXPECT_EQ(whole.blocks, 9U);
  ASSERT_EQ(whole.degraded.size(), 2U);
  EXPECT_EQ(whole.degraded[0].element_first, 20U);
  EXPECT_EQ(whole.degraded[1].element_first, 55U);
  add_outcome(whole, failed_outcome(Status::kNotFinite, "infinite"), 85);
  add_outcome(whole, failed_outcome(Status::kOverflow, "large"), 95);
  EXPECT_EQ(whole.status, Status::kNotFinite);
  EXPECT_EQ(whole.text, "infinite");
  for (const uint64_t lost : {2U, 3U}) {
    Outcome part;
    part.underflow = {.nonzero = 10, .underflowed = lost};
    add_outcome(whole, part, 100);
  }
  EXPECT_EQ(whole.underflow, (Underflow{.nonzero = 20, .underflowed = 5}));
}

TEST(TensorParts, RandomCutsCoverTheTensorInWholeBlocks) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 10'000; step++) {
    const uint32_t gradients = 1 + prng.below(2048);
    const uint32_t channels = 1 + prng.below(wire::kChannelsMax);
    const uint64_t count = 1 + prng.below(1 + prng.below(3'000'000));
    const auto parts = tensor_parts(count, gradients, channels);
    ASSERT_LE(parts.size(), channels) << "step " << step;
    uint64_t covered = 0;
    for (const TensorPart& part : parts) {
      ASSERT_EQ(part.element_first, covered) << "step " << step;
      ASSERT_EQ(part.element_first % gradients, 0U) << "step " << step;
      ASSERT_GT(part.element_count, 0U) << "step " << step;
      if (parts.size() > 1) {
        const uint64_t blocks = (part.element_count + gradients - 1) / gradients;
        ASSERT_GE(blocks, kPartBlocksMin) << "step " << step;
        ASSERT_LE(blocks, (parts[0].element_count + gradients - 1) / gradients) << "step " << step;
      }
      covered += part.element_count;
    }
    ASSERT_EQ(covered, count) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::host
