// SPDX-License-Identifier: Apache-2.0
// Method: a server on a wildcard address, and clients that send to several of this machine's
// addresses. A client's socket is connected, so a reply from another address never reaches it.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "io/udp/local_addresses.h"
#include "io/udp/udp_port.h"
#include "tests/io/frames/bytes.h"
#include "tests/io/udp/udp_bed.h"

namespace tributary::io {
namespace {

using engine::TxPacket;

const Endpoint kAny4 = Endpoint::ipv4(0, 0);

/// Sends a single packet and a train to the server at `address`, and back to where they came from.
/// @return the sender as the server knows it.
Endpoint exchange(UdpPort& server, Endpoint address) {
  address.port = server.local().port;
  const auto client = open({.peer = address});
  if (client == nullptr) return {};
  const std::array<Bytes, 4> sent{numbered(0, 40), numbered(1, 64), numbered(2, 64),
                                  numbered(3, 64)};
  std::vector<TxPacket> packets;
  for (const Bytes& bytes : sent) packets.push_back(to(bytes, address));
  client->queue(0).transmit(packets);
  const auto arrived = receive(server.queue(0), sent.size());
  if (arrived.size() != sent.size()) {
    ADD_FAILURE() << arrived.size() << " packets arrived at " << address.to_string();
    return {};
  }
  for (size_t i = 0; i < sent.size(); i++) packets[i] = to(sent[i], arrived[i].source);
  server.queue(0).transmit(packets);
  const auto back = receive(client->queue(0), sent.size());
  EXPECT_EQ(back.size(), sent.size()) << "replies from " << address.to_string();
  for (size_t i = 0; i < back.size(); i++) EXPECT_EQ(back[i].bytes, sent[i]);
  EXPECT_EQ(server.queue(0).counters().tx_refused, 0U);
  return arrived[0].source;
}

TEST(UdpPortAddress, RepliesLeaveFromTheAddressThatThePacketReached) {
  const auto server = open({.local = kAny4});
  ASSERT_NE(server, nullptr);
  for (const uint32_t address : {0x7f000001U, 0x7f000002U, 0x7f000003U}) {
    exchange(*server, Endpoint::ipv4(address, 0));
  }
}

TEST(UdpPortAddress, RepliesOfADualStackPortLeaveFromTheAddressThatThePacketReached) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback here";
  const auto server = open({});
  ASSERT_NE(server, nullptr);
  for (const Endpoint& address : {Endpoint::ipv4(0x7f000002, 0), loopback6(), kLoopback4}) {
    exchange(*server, address);
  }
}

TEST(UdpPortAddress, SameSenderAtAnotherAddressIsAnotherEndpoint) {
  const auto server = open({.local = kAny4});
  const auto client = open({.local = kLoopback4});
  const Bytes bytes = numbered(1, 40);
  Endpoint first = kLoopback4;
  Endpoint second = Endpoint::ipv4(0x7f000002, 0);
  first.port = second.port = server->local().port;
  client->queue(0).transmit(std::array{to(bytes, first), to(bytes, second)});
  const auto arrived = receive(server->queue(0), 2);
  ASSERT_EQ(arrived.size(), 2U);
  EXPECT_NE(arrived[0].source, arrived[1].source);
  EXPECT_TRUE(arrived[0].source.is_same_peer(arrived[1].source));
  EXPECT_TRUE(arrived[0].source.is_same_peer(client->local()));
}

TEST(UdpPortAddress, AnyQueueMayReply) {
  const auto server = open({.local = kAny4, .queue_count = 2});
  const Endpoint address = Endpoint::ipv4(0x7f000002, server->local().port);
  const auto client = open({.peer = address});
  const Bytes bytes = numbered(1, 40);  // Its steering field is 0.
  client->queue(0).transmit(std::array{to(bytes, address)});
  const auto arrived = receive(server->queue(0), 1);
  ASSERT_EQ(arrived.size(), 1U);
  server->queue(1).transmit(std::array{to(bytes, arrived[0].source)});
  EXPECT_EQ(receive(client->queue(0), 1).size(), 1U);
}

TEST(UdpPortAddress, PortsWithOneAddressOrOnePeerNeedNoIndex) {
  const auto bound = open({.local = kLoopback4});
  const auto client = open({.peer = bound->local()});
  const Bytes bytes = numbered(1, 40);
  client->queue(0).transmit(std::array{to(bytes, bound->local())});
  const auto arrived = receive(bound->queue(0), 1);
  ASSERT_EQ(arrived.size(), 1U);
  EXPECT_EQ(arrived[0].source.via, 0);
  bound->queue(0).transmit(std::array{to(bytes, arrived[0].source)});
  const auto back = receive(client->queue(0), 1);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].source, bound->local());
}

TEST(UdpPortAddress, CountsMessagesAtMoreAddressesThanTheTableHolds) {
  const auto server = open({.local = kAny4});
  const auto client = open({.local = kAny4});
  const Bytes bytes = numbered(1, 40);
  constexpr uint32_t kMore = 3;
  std::vector<TxPacket> packets;
  for (uint32_t i = 0; i < LocalAddresses::kAddressesMax + kMore; i++) {
    packets.push_back(to(bytes, Endpoint::ipv4(0x7f000101 + i, server->local().port)));
  }
  client->queue(0).transmit(packets);
  const auto arrived = receive(server->queue(0), packets.size());
  ASSERT_EQ(arrived.size(), packets.size());
  EXPECT_EQ(server->queue(0).counters().local_address_unknown, kMore);
  EXPECT_NE(arrived[0].source.via, 0);
  EXPECT_EQ(arrived.back().source.via, 0);
}

}  // namespace
}  // namespace tributary::io
