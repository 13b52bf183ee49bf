// SPDX-License-Identifier: Apache-2.0
/// @file
/// A WorkerProtocol with a simulated aggregator. Decodes the packets that the protocol sends, and
/// builds the packets that it receives from the fields that a test sets.
///
/// Units:   Virtual time, which only the test advances.
/// Tests:   used by tests/host/worker_*_test.cc
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_order.h"
#include "host/trio_ml/worker_protocol.h"

namespace tributary::testing {

using wire::Message;
using wire::MessageType;
using wire::Reason;

inline constexpr uint64_t kNonce = 0x77'0000'0000'0077;
inline constexpr uint64_t kResultKey = 0x5e55'0000'0000'5e55;
inline constexpr uint64_t kKey = 0x4b'0000'0000'004b;

/// Rank 1 of 4 at job 7, four elements a block, a window of four, a deadline of a second.
inline host::CommunicatorConfig small_config() {
  host::CommunicatorConfig config;
  config.server = Endpoint::ipv4(0x0a000001, 12000);
  config.job_id = 7;
  config.rank = 1;
  config.world = 4;
  config.gradients = 4;
  config.window = 4;
  config.deadline = seconds(1);
  return config;
}

/// A packet that the protocol sent.
struct SentMessage {
  Message message;
  std::vector<int32_t> lanes;
  Endpoint to;
  [[nodiscard]] MessageType type() const { return message.extension.type; }
  [[nodiscard]] uint32_t block() const { return message.header.block_id; }
  [[nodiscard]] bool is_repeat() const {
    return (message.extension.flags & wire::kFlagRetransmission) != 0;
  }
};

inline wire::SourceMask mask_of(std::initializer_list<uint32_t> sources) {
  wire::SourceMask mask{};
  for (const uint32_t source : sources) mask[source / 64] |= uint64_t{1} << (source % 64);
  return mask;
}

/// Returns the value of the scale field (docs/wire-format.md).
inline uint32_t scale_bits(const host::Transfer& of) {
  if (of.owner && of.format != wire::ElementFormat::kFixedScale) {
    host::Transfer all = of;
    all.owner.reset();
    return scale_bits(all) | (*of.owner + 1) << 8;
  }
  if (of.op == host::ReduceOp::kMean) {
    host::Transfer sum;
    sum.format = of.format;
    sum.scale = of.scale;
    sum.halves = of.halves;
    return scale_bits(sum) | wire::kScaleBitMean;
  }
  if (of.format == wire::ElementFormat::kFixedScale) return std::bit_cast<uint32_t>(of.scale);
  if (of.halves.bits.empty()) return 0;
  return of.halves.type == host::HalfType::kFloat16 ? 1 : 2;
}

class ProtocolBed {
 public:
  explicit ProtocolBed(const host::CommunicatorConfig& config = small_config())
      : config_(config), protocol(config, kNonce, now) {}

  /// Advances the time and calls on_time().
  void pass(Duration length) {
    now = now + length;
    protocol.on_time(now);
  }

  /// Returns all packets that the protocol has ready to send.
  std::vector<SentMessage> take_sent() {
    std::vector<SentMessage> sent;
    std::vector<std::byte> bytes(protocol.packet_bytes_max());
    while (true) {
      const host::Outgoing next = protocol.next_packet(bytes, now);
      const uint32_t size = next.size_bytes;
      if (size == 0) break;
      SentMessage& packet = sent.emplace_back();
      packet.to = next.to;
      const auto status = decode_message(std::span(bytes).first(size), size, packet.message);
      if (status != wire::DecodeStatus::kOk) packet.message.header.job_id = 0;
      for (uint32_t at = packet.message.head_bytes; at + 4 <= size; at += 4) {
        packet.lanes.push_back(static_cast<int32_t>(load_be<uint32_t>(&bytes[at])));
      }
    }
    return sent;
  }

  void receive(const Message& message, std::span<const int32_t> lanes = {}) {
    std::vector<std::byte> bytes(wire::kControlMessageBytes + lanes.size() * 4);
    uint32_t size = encode_message(message, bytes.data());
    for (const int32_t lane : lanes) {
      store_be(&bytes[size], static_cast<uint32_t>(lane));
      size += 4;
    }
    protocol.on_packet(std::span(bytes).first(size), now);
  }

  /// Delivers an answer to a join. @param nonce The worker's own by default.
  void answer_join(MessageType type, const wire::ControlBody& body, uint64_t nonce = kNonce) {
    Message message = control(type, 0);
    message.extension.key = nonce;
    message.body = body;
    receive(message);
  }

  /// Joins, and exchanges all packets of the join.
  void join(wire::ControlBody body = {}) {
    if (body.sources == 0) body.sources = static_cast<uint16_t>(config_.world);
    if (body.window == 0) body.window = 4096;
    if (body.gradients_max == 0) body.gradients_max = 2048;
    body.key = kKey;
    body.result_key = kResultKey;
    (void)take_sent();
    answer_join(MessageType::kWelcome, body);
    (void)take_sent();  // The confirmation.
  }

  /// Returns a result as the aggregator makes it. A test may change its fields.
  [[nodiscard]] Message result(uint32_t block, uint32_t lane_count, const host::Transfer& of,
                               uint16_t gen_id = 0) const {
    Message message;
    message.header = {.job_id = config_.job_id,
                      .block_id = block,
                      .extended = true,
                      .src_cnt = static_cast<uint8_t>(config_.world),
                      .gen_id = gen_id,
                      .grad_cnt = static_cast<uint16_t>(lane_count)};
    message.extension = {.type = MessageType::kResult,
                         .format = of.format,
                         .tensor_elements = static_cast<uint32_t>(of.element_count()),
                         .scale_bits = scale_bits(of),
                         .key = kResultKey};
    return message;
  }

  [[nodiscard]] Message control(MessageType type, uint32_t block) const {
    Message message;
    message.header = {.job_id = config_.job_id, .block_id = block, .extended = true};
    message.extension = {.type = type, .key = kResultKey};
    return message;
  }
  void have(uint32_t block, std::initializer_list<uint32_t> sources) {
    Message message = control(MessageType::kHave, block);
    message.body.mask = mask_of(sources);
    receive(message);
  }
  void notice(Reason reason, uint32_t block, uint8_t source = 0) {
    Message message = control(MessageType::kNotice, block);
    message.body.reason = reason;
    message.body.source = source;
    receive(message);
  }

 private:
  const host::CommunicatorConfig config_;

 public:
  Instant now{};
  host::WorkerProtocol protocol;
};

/// A transfer of int32 that owns its tensor.
struct IntTransfer {
  explicit IntTransfer(std::vector<int32_t> values) : tensor(std::move(values)) {
    transfer.integers = tensor;
  }
  std::vector<int32_t> tensor;
  host::Transfer transfer;
};

}  // namespace tributary::testing
