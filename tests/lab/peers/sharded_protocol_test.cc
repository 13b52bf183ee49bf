// SPDX-License-Identifier: Apache-2.0
// Method: what leaves for whom, by hand; sums through real servers are in peers_run_test.cc and in
// tests/lab/cluster/run_test.cc.
#include "lab/peers/sharded_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

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

TEST(ShardedProtocol, WindowsAreShares) {
  EXPECT_EQ(window_share(4096, 6), 512U);
  EXPECT_EQ(window_share(4096, 8), 512U);
  EXPECT_EQ(window_share(64, 6), 8U);
  EXPECT_EQ(window_share(4, 6), 1U);
}

TEST(ShardedProtocol, JoinsEveryServer) {
  ShardedProtocol protocol(two_servers(), 5, Instant());
  EXPECT_EQ(protocol.phase(), ShardedProtocol::Phase::kJoining);
  EXPECT_TRUE(protocol.hears(server(1)));
  EXPECT_FALSE(protocol.hears(server(2)));
  EXPECT_EQ(protocol.window(), 2U);  // One each, until the servers have said what they allow.
  protocol.on_time(Instant());
  std::vector<Endpoint> joins;
  std::vector<std::byte> out(protocol.packet_bytes_max());
  for (;;) {
    const host::Outgoing packet = protocol.next_packet(out, Instant());
    if (packet.size_bytes == 0) break;
    joins.push_back(packet.to);
  }
  EXPECT_EQ(joins, (std::vector<Endpoint>{server(0), server(1)}));
  EXPECT_EQ(protocol.counters().packets_sent, 2U);
}

TEST(ShardedProtocol, ASilentServerIsNamedAndEndsAll) {
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

TEST(ShardedProtocol, LeavingAndFailingEndEverything) {
  for (const bool leaves : {true, false}) {
    ShardedProtocol protocol(two_servers(), 5, Instant());
    std::vector<int32_t> values(100);
    Transfer transfer;
    transfer.integers = values;
    protocol.submit(transfer, Instant());
    if (leaves) {
      protocol.leave(Instant());
    } else {
      protocol.fail(Status::kPeerLeft, "gone");
    }
    EXPECT_TRUE(transfer.done);
    EXPECT_EQ(transfer.outcome.status, leaves ? Status::kClosed : Status::kPeerLeft);
    EXPECT_EQ(protocol.phase(), ShardedProtocol::Phase::kEnded);
  }
}

}  // namespace
}  // namespace tributary::lab
