// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/fault_wire.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/support/seed.h"
#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

using wire::Message;
using wire::MessageType;

constexpr uint32_t kLanes = 3;

std::vector<std::byte> bytes_of(MessageType type, auth::Mode mode = auth::Mode::kNone) {
  Message message;
  message.header = {.job_id = 1, .block_id = 5, .extended = true, .src_id = 2, .src_cnt = 1};
  message.header.grad_cnt = is_control(type) ? 0 : kLanes;
  message.extension = {
      .type = type, .flags = wire::seal_flag(mode), .tensor_elements = 9, .key = 88};
  std::vector<std::byte> bytes(wire::kControlMessageBytes);
  bytes.resize(encode_message(message, bytes.data()));
  bytes.resize(bytes.size() + size_t{message.header.grad_cnt} * 4);
  return bytes;
}

/// Fields that let a receiver refuse the message.
bool differs_in_a_checked_field(std::span<const std::byte> bytes) {
  Message message;
  if (decode_message(bytes, static_cast<uint32_t>(bytes.size()), message) !=
      wire::DecodeStatus::kOk) {
    return true;
  }
  return message.header.job_id != 1 || message.header.src_id != 2 || message.header.gen_id != 0 ||
         message.extension.key != 88 || message.extension.tensor_elements != 9;
}

TEST(FaultWire, ScramblesACheckedFieldAndEveryGradient) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng draws(seed);
  for (const MessageType type :
       {MessageType::kContribution, MessageType::kResult, MessageType::kProbe}) {
    for (uint32_t i = 0; i < 500; i++) {
      const std::vector<std::byte> before = bytes_of(type);
      std::vector<std::byte> after = before;
      ASSERT_TRUE(scramble_message(after, draws));
      ASSERT_EQ(after.size(), before.size());
      EXPECT_TRUE(differs_in_a_checked_field(after));
      // Block id and type stay: a flip there contradicts nothing.
      for (const size_t kept : {1U, 2U, 3U, 4U, 12U}) EXPECT_EQ(after[kept], before[kept]);
      for (size_t at = 32; at < before.size(); at++) EXPECT_NE(after[at], before[at]);
    }
  }
}

TEST(FaultWire, ScramblesOnlyJobAndKeyOfAResultBetweenAggregators) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng draws(seed);
  for (const MessageType type : {MessageType::kResult, MessageType::kReceipt}) {
    for (uint32_t i = 0; i < 500; i++) {
      const std::vector<std::byte> before = bytes_of(type);
      std::vector<std::byte> after = before;
      ASSERT_TRUE(scramble_tree_message(after, draws));
      uint32_t changed = 0;
      for (size_t at = 0; at < 32; at++) {
        if (after[at] == before[at]) continue;
        EXPECT_TRUE(at == 0 || (at >= 24 && at < 32)) << at;
        changed++;
      }
      EXPECT_EQ(changed, 1U);
    }
  }
}

/// Returns the number of bits in which two messages differ.
uint32_t bits_between(std::span<const std::byte> a, std::span<const std::byte> b) {
  uint32_t count = 0;
  for (size_t i = 0; i < a.size(); i++) {
    count += static_cast<uint32_t>(std::popcount(std::to_integer<uint8_t>(a[i] ^ b[i])));
  }
  return count;
}

TEST(FaultWire, TampersWithOneBitThatASealProtects) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng draws(seed);
  for (const auth::Mode mode : {auth::Mode::kHeader, auth::Mode::kFull}) {
    bool hit_gradients = false;
    for (uint32_t i = 0; i < 500; i++) {
      const std::vector<std::byte> before = bytes_of(MessageType::kResult, mode);
      const size_t head_bytes = before.size() - size_t{kLanes} * 4;
      std::vector<std::byte> after = before;
      ASSERT_TRUE(tamper_message(after, draws));
      EXPECT_EQ(bits_between(before, after), 1U);
      hit_gradients |= bits_between(std::span(before).subspan(head_bytes),
                                    std::span(after).subspan(head_bytes)) == 1;
    }
    EXPECT_EQ(hit_gradients, mode == auth::Mode::kFull);
  }
  std::vector<std::byte> plain = bytes_of(MessageType::kResult);
  EXPECT_FALSE(tamper_message(plain, draws));
  std::vector<std::byte> join = bytes_of(MessageType::kJoin, auth::Mode::kHeader);
  EXPECT_FALSE(tamper_message(join, draws));
}

TEST(FaultWire, KeepsSessionMessagesIntact) {
  Prng draws(1);
  for (const MessageType type : {MessageType::kJoin, MessageType::kWelcome, MessageType::kLeave}) {
    std::vector<std::byte> bytes = bytes_of(type);
    EXPECT_FALSE(scramble_message(bytes, draws));
    EXPECT_EQ(bytes, bytes_of(type));
  }
  std::vector<std::byte> nonsense(5);
  EXPECT_FALSE(scramble_message(nonsense, draws));
}

}  // namespace
}  // namespace tributary::lab
