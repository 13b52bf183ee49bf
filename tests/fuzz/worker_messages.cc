// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/worker_messages.h"

#include <algorithm>

#include "base/byte_order.h"

namespace tributary::fuzz {

using wire::Message;
using wire::MessageType;

namespace {

constexpr uint64_t kResultKey = 0x5e55;
constexpr uint64_t kKey = 0x4b;

}  // namespace

void AggregatorMessages::note_sent(std::span<const std::byte> bytes) {
  Message message;
  const auto head = bytes.first(std::min<size_t>(bytes.size(), wire::kControlMessageBytes));
  // A packet without stored gradients has its head only, so its size is not known here.
  const auto status = decode_message(head, static_cast<uint32_t>(bytes.size()), message);
  const bool sound = status == wire::DecodeStatus::kOk || status == wire::DecodeStatus::kTooShort;
  EXPECT_TRUE(sound);
  if (message.extension.type == MessageType::kContribution) sent_ = message;
}

std::vector<std::byte> AggregatorMessages::make(InputReader& in) const {
  const auto type = static_cast<MessageType>(in.below(wire::kMessageTypeLast + 1));
  const uint32_t block = in.take<uint8_t>();
  const auto reason = static_cast<wire::Reason>(in.below(wire::kReasonLast + 1));

  Message message;
  message.header = {.job_id = job_id_, .block_id = block, .extended = true};
  const uint64_t key = is_join_reply(type)           ? nonce_
                       : type == MessageType::kReset ? kKey
                                                     : kResultKey;
  message.extension = {.type = type, .key = key};
  message.body.reason = reason;
  message.body.sources = static_cast<uint16_t>(world_);
  if (type == MessageType::kWelcome) {
    message.body.window = 1 + in.take<uint8_t>();
    message.body.gradients_max = 1 + in.take<uint8_t>();
    message.body.timeout_us = 100 * in.take<uint8_t>();
    message.body.key = kKey;
    message.body.result_key = kResultKey;
  } else if (type == MessageType::kResult) {
    // The result of the last contribution: its block if the input says 255.
    message.header = sent_.header;
    if (block != UINT8_MAX) message.header.block_id = block;
    message.header.src_cnt = static_cast<uint8_t>(world_);
    message.header.degraded = in.below(2) != 0;
    message.extension = sent_.extension;
    message.extension.type = type;
    message.extension.key = kResultKey;
    message.extension.flags |= wire::kFlagSourceMask;
    message.mask[0] = in.take<uint8_t>();
  } else {
    message.body.mask[0] = in.take<uint8_t>();
    message.body.value = in.take<uint8_t>();
  }
  std::vector<std::byte> bytes(wire::kControlMessageBytes);
  bytes.resize(encode_message(message, bytes.data()));
  if (!wire::is_control(type)) {
    bytes.resize(bytes.size() + message.header.grad_cnt * wire::kGradientBytes, std::byte{1});
  }
  return bytes;
}

void put_welcome(InputWriter& out) { out.put8({5, 0, 0, 7, 3, 100, 0}); }
void put_result(InputWriter& out, uint32_t block) { out.put8({1, block, 0, 0, 15, 0}); }
void put_have(InputWriter& out, uint32_t block) { out.put8({3, block, 0, 1, 0, 0}); }
void put_notice(InputWriter& out, wire::Reason reason, uint32_t block) {
  out.put8({8, block, static_cast<uint32_t>(reason), 1, 0, 0});
}

}  // namespace tributary::fuzz
