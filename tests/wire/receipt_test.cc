// SPDX-License-Identifier: Apache-2.0
// Method: owners and receipts by hand, from docs/wire-format.md.
#include <gtest/gtest.h>

#include "tests/support/hex.h"
#include "wire/trio_ml.h"

namespace tributary::wire {
namespace {

// The example of docs/wire-format.md.
TEST(Receipt, MatchesHandWrittenBytes) {
  const Bytes expected = from_hex(
      "01 00 00 00 07 02 00 03 00 03 00 02 "
      "2e 00 00 80 00 00 00 02 00 00 03 00 a1 a2 a3 a4 a5 a6 a7 a8");
  Message receipt;
  receipt.header = {
      .job_id = 1, .block_id = 7, .extended = true, .src_cnt = 3, .gen_id = 3, .grad_cnt = 2};
  receipt.extension = {.type = MessageType::kReceipt,
                       .tensor_elements = 2,
                       .scale_bits = owner_bits(ElementFormat::kInt32, 2),
                       .key = 0xa1a2a3a4a5a6a7a8};
  Bytes bytes(kControlMessageBytes);
  bytes.resize(encode_message(receipt, bytes.data()));
  EXPECT_EQ(bytes, expected);

  Message decoded;
  ASSERT_EQ(decode_message(bytes, 32, decoded), DecodeStatus::kOk);
  EXPECT_EQ(decoded.header.grad_cnt, 2);
  EXPECT_EQ(result_owner(decoded.extension.format, decoded.extension.scale_bits), 2U);
  EXPECT_EQ(decode_message(bytes, 40, decoded), DecodeStatus::kTooLong);  // With the gradients.

  set_type(MessageType::kResult, bytes.data());
  EXPECT_EQ(decode_message(bytes, 32, decoded), DecodeStatus::kTooShort);
  set_type(MessageType::kReceipt, bytes.data());
  EXPECT_EQ(bytes, expected);
}

TEST(Receipt, JoinsOfferToTakeThem) {
  for (const bool receipts : {false, true}) {
    Message join;
    join.header.extended = true;
    join.extension.type = MessageType::kJoin;
    join.body.receipts = receipts;
    Bytes bytes(kControlMessageBytes);
    bytes.resize(encode_message(join, bytes.data()));
    EXPECT_EQ(std::to_integer<uint32_t>(bytes[32 + 30]), receipts ? 8U : 0U);
    Message decoded;
    ASSERT_EQ(decode_message(bytes, static_cast<uint32_t>(bytes.size()), decoded),
              DecodeStatus::kOk);
    EXPECT_EQ(decoded.body.receipts, receipts);
  }
}

TEST(Owner, LiesBesideTypeAndOperation) {
  EXPECT_EQ(owner_bits(ElementFormat::kInt32, {}), 0U);
  EXPECT_EQ(owner_bits(ElementFormat::kInt32, 0), 0x100U);
  EXPECT_EQ(owner_bits(ElementFormat::kBlockExponent16, 255), 0x10000U);
  EXPECT_EQ(owner_bits(ElementFormat::kFixedScale, 3), 0U);
  EXPECT_EQ(result_owner(ElementFormat::kBlockExponent, kScaleBitMean | 0x401), 3U);
  EXPECT_EQ(result_owner(ElementFormat::kBlockExponent, kScaleBitMean | 2), std::nullopt);
  EXPECT_EQ(result_owner(ElementFormat::kFixedScale, 0x401), std::nullopt);
  EXPECT_EQ(result_owner(ElementFormat::kInt32, 0xffffffff), 510U);
}

}  // namespace
}  // namespace tributary::wire
