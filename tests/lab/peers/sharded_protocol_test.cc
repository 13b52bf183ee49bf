// SPDX-License-Identifier: Apache-2.0
// Method: destinations and packets by hand; sums through real servers are in peers_run_test.cc and
// in tests/lab/run_test.cc.
#include "lab/peers/sharded_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "base/byte_order.h"
#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::lab {
namespace {

using host::Status;
using host::Transfer;
using ::testing::HasSubstr;

Endpoint server(uint32_t i) { return Endpoint::ipv4(0x0a01'0001 + i, 12000); }

ShardedConfig two_servers() {
  ShardedConfig config;
  config.communicator.world = 2;
  config.communicator.gradients = 16;
  config.communicator.window = 8;
  config.communicator.deadline = seconds(5);
  config.servers = {server(0), server(1)};
  return config;
}

/// Returns the destinations of the packets that it sends.
std::vector<Endpoint> send_all(ShardedProtocol& protocol) {
  std::vector<Endpoint> to;
  std::vector<std::byte> out(protocol.packet_bytes_max());
  for (;;) {
    const host::Outgoing packet = protocol.next_packet(out, Instant());
    if (packet.size_bytes == 0) return to;
    to.push_back(packet.to);
  }
}

TEST(ShardedProtocol, ServersShareTheWindowByWeight) {
  using Shares = std::vector<uint32_t>;
  EXPECT_EQ(window_shares(4096, Shares(6, 1)), Shares(6, 682));
  EXPECT_EQ(window_shares(4096, Shares(8, 1)), Shares(8, 512));
  EXPECT_EQ(window_shares(100, Shares{1, 3}), (Shares{25, 75}));
  EXPECT_EQ(window_shares(4, Shares{1, 9}), (Shares{1, 3}));
}

TEST(ShardedProtocol, JoinsEveryServer) {
  ShardedProtocol protocol(two_servers(), 5, Instant());
  EXPECT_EQ(protocol.phase(), ShardedProtocol::Phase::kJoining);
  EXPECT_TRUE(protocol.accepts_from(server(1)));
  EXPECT_FALSE(protocol.accepts_from(server(2)));
  EXPECT_EQ(protocol.window(), 2U);  // One each, until the servers have sent their limits.
  protocol.on_time(Instant());
  EXPECT_EQ(send_all(protocol), (std::vector<Endpoint>{server(0), server(1)}));  // Joins.
  EXPECT_EQ(protocol.counters().packets_sent, 2U);
}

TEST(ShardedProtocol, SilentServerIsNamedAndEndsTheTransfer) {
  ShardedProtocol protocol(two_servers(), 5, Instant());
  std::vector<int32_t> values(100);
  Transfer transfer;
  transfer.integers = values;
  protocol.submit(transfer, Instant());
  EXPECT_FALSE(protocol.idle());
  protocol.on_time(Instant(seconds(6)));
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kAggregatorGone);
  EXPECT_THAT(protocol.status_text(), HasSubstr("server 0: "));
  EXPECT_EQ(protocol.phase(), ShardedProtocol::Phase::kEnded);
  EXPECT_TRUE(protocol.idle());
  Transfer later;
  later.integers = values;
  protocol.submit(later, Instant(seconds(6)));
  EXPECT_TRUE(later.done);
  EXPECT_EQ(later.outcome.status, Status::kAggregatorGone);
}

/// A server's message to the worker.
void tell(ShardedProtocol& protocol, uint32_t from, const wire::Message& message,
          std::span<const int32_t> sums = {}) {
  std::vector<std::byte> bytes(wire::kControlMessageBytes + sums.size() * 4);
  uint32_t size = encode_message(message, bytes.data());
  for (const int32_t sum : sums) {
    store_be(&bytes[size], static_cast<uint32_t>(sum));
    size += 4;
  }
  const Endpoint sender = server(from);
  (void)protocol.on_packet(
      {.from = sender, .stored = std::span(bytes).first(size), .size_bytes = size}, Instant());
}

// Each server has half of the tensor, the fewest blocks that an aggregator is given. It counts
// blocks and elements of its half from 0.
TEST(ShardedProtocol, DegradedRangesCoverTheWholeTensor) {
  constexpr uint64_t kNonce = 5;
  constexpr uint64_t kResultKey = 9;
  ShardedProtocol protocol(two_servers(), kNonce, Instant());
  const auto message_of = [](wire::MessageType type) {
    wire::Message message;
    message.header.job_id = two_servers().communicator.job_id;
    message.header.extended = true;
    message.extension.type = type;
    message.extension.key = kResultKey;
    return message;
  };
  (void)send_all(protocol);
  for (const uint32_t from : {0U, 1U}) {
    wire::Message welcome = message_of(wire::MessageType::kWelcome);
    welcome.body.sources = 2;
    welcome.extension.key = kNonce;
    welcome.body.result_key = kResultKey;
    welcome.body.window = 8;
    welcome.body.gradients_max = 16;
    tell(protocol, from, welcome);
  }
  constexpr uint32_t kBlocks = plan::kPartBlocksMin;  // Of each server.
  std::vector<int32_t> values(uint64_t{2} * kBlocks * 16);
  Transfer transfer;
  transfer.integers = values;
  protocol.submit(transfer, Instant());
  (void)send_all(protocol);
  for (uint32_t block = 0; block < kBlocks; block++) {
    for (const uint32_t from : {0U, 1U}) {
      wire::Message result = message_of(wire::MessageType::kResult);
      result.header.block_id = block;
      result.header.grad_cnt = 16;
      result.header.src_cnt = from == 0 ? 2 : 1;
      result.header.degraded = from == 1;
      result.extension.format = transfer.format;
      result.extension.tensor_elements = static_cast<uint32_t>(values.size());
      result.extension.scale_bits = testing::scale_bits(transfer);
      if (from == 1) {
        result.extension.flags = wire::kFlagSourceMask;
        result.mask[0] = 1;
      }
      const std::vector<int32_t> sums(16, static_cast<int32_t>(from) + 1);
      tell(protocol, from, result, sums);
      tell(protocol, from, result, sums);
    }
    (void)send_all(protocol);
  }
  ASSERT_TRUE(transfer.done) << protocol.status_text();
  EXPECT_EQ(values.front(), 1);
  EXPECT_EQ(values.back(), 2);
  EXPECT_EQ(transfer.outcome.blocks, 2U * kBlocks);
  uint64_t covered = kBlocks * 16;  // The second server's half begins here.
  for (const host::DegradedRange& range : transfer.outcome.degraded) {
    EXPECT_EQ(range.element_first, covered);
    covered += range.element_count;
  }
  EXPECT_EQ(covered, values.size());
  EXPECT_EQ(protocol.counters().degraded_blocks, kBlocks);
  EXPECT_EQ(protocol.counters().duplicate_results, 2U * kBlocks);
}

TEST(ShardedProtocol, LeavingAndFailuresEndAllTransfers) {
  for (const bool leaves : {true, false}) {
    ShardedProtocol protocol(two_servers(), 5, Instant());
    std::vector<int32_t> values(100);
    Transfer transfer;
    transfer.integers = values;
    protocol.submit(transfer, Instant());
    if (leaves) {
      protocol.leave(Instant());
    } else {
      protocol.fail(Status::kPeerLeft, "gone", 0);
    }
    EXPECT_TRUE(transfer.done);
    EXPECT_EQ(transfer.outcome.status, leaves ? Status::kClosed : Status::kPeerLeft);
    EXPECT_EQ(protocol.phase(), ShardedProtocol::Phase::kEnded);
  }
}

}  // namespace
}  // namespace tributary::lab
