// SPDX-License-Identifier: Apache-2.0
// Method: the terms of each tensor type worked by hand from docs/wire-format.md.
#include "host/trio_ml/tensor_terms.h"

#include <gtest/gtest.h>

#include <array>

namespace tributary::host {
namespace {

using wire::ElementFormat;

TEST(TensorTerms, IntegersHaveNoScale) {
  std::array<int32_t, 3> tensor{};
  Transfer transfer;
  transfer.integers = tensor;
  EXPECT_EQ(terms_of(transfer), (wire::TensorTerms{.tensor_elements = 3}));
}

TEST(TensorTerms, AMeanIsABitOfTheScale) {
  std::array<float, 2> tensor{};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kFixedScale;
  transfer.scale = 1.0F;
  EXPECT_EQ(terms_of(transfer).scale_bits, 0x3f800000U);  // 1.0F.
  transfer.op = ReduceOp::kMean;
  EXPECT_EQ(terms_of(transfer).scale_bits, 0xbf800000U);
}

TEST(TensorTerms, HalvesNameTheirType) {
  std::array<uint16_t, 2> tensor{};
  Transfer transfer;
  transfer.format = ElementFormat::kBlockExponent;
  EXPECT_EQ(terms_of(transfer).scale_bits, 0U);  // float32.
  transfer.halves = {.bits = tensor, .type = HalfType::kFloat16};
  EXPECT_EQ(terms_of(transfer).scale_bits, 1U);
  transfer.halves.type = HalfType::kBfloat16;
  EXPECT_EQ(terms_of(transfer).scale_bits, 2U);
}

TEST(TensorTerms, AnOwnerLiesAboveTheType) {
  std::array<uint16_t, 2> tensor{};
  Transfer transfer;
  transfer.format = ElementFormat::kBlockExponent;
  transfer.halves = {.bits = tensor, .type = HalfType::kBfloat16};
  transfer.owner = 4;
  transfer.op = ReduceOp::kMean;
  EXPECT_EQ(terms_of(transfer).scale_bits, 0x80000502U);
  transfer.format = ElementFormat::kFixedScale;
  transfer.halves = {};
  transfer.scale = 1.0F;
  EXPECT_EQ(terms_of(transfer).scale_bits, 0xbf800000U);  // No room for an owner.
}

TEST(TensorTerms, APartNamesTheWholeTensor) {
  std::array<int32_t, 3> part{};
  Transfer transfer;
  transfer.integers = part;
  transfer.tensor_elements = 12;
  EXPECT_EQ(terms_of(transfer).tensor_elements, 12U);
}

}  // namespace
}  // namespace tributary::host
