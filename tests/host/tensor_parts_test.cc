// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked transfers and outcomes.
#include "host/tensor_parts.h"

#include <gtest/gtest.h>

#include <array>

namespace tributary::host {
namespace {

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

}  // namespace
}  // namespace tributary::host
