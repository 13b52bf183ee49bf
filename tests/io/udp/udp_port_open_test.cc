// SPDX-License-Identifier: Apache-2.0
// Method: configurations that cannot be opened, with their error texts. Packets that cannot be sent
// are counted. Then multicast groups, and a device that refuses trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/file_descriptor.h"
#include "io/udp/udp_port.h"
#include "tests/io/frames/bytes.h"
#include "tests/io/udp/udp_bed.h"

namespace tributary::io {
namespace {

using engine::TxPacket;
using ::testing::HasSubstr;

// --- refusals ---

std::string open_error(const UdpPortConfig& config) {
  const auto port = UdpPort::open(config);
  return port ? std::string() : port.error().text;
}

TEST(UdpPort, RefusesAPortInUseForAnyQueueCounts) {
  for (const uint32_t first : {1U, 4U}) {
    const auto server = open({.local = kLoopback4, .queue_count = first});
    ASSERT_NE(server, nullptr);
    for (const uint32_t second : {1U, 4U}) {
      const std::string error = open_error({.local = server->local(), .queue_count = second});
      EXPECT_THAT(error, HasSubstr("cannot listen on UDP " + server->local().to_string()));
      EXPECT_THAT(error, HasSubstr("another program listens there"));
      EXPECT_EQ(error.find('\n'), std::string::npos);
    }
  }
}

TEST(UdpPort, RefusalsNameFieldValueAndAllowedValues) {
  EXPECT_EQ(open_error({.queue_count = 3}),
            "queue_count 3 is not allowed; it must be a power of two up to 64");
  EXPECT_THAT(open_error({.queue_count = 0}), HasSubstr("queue_count 0"));
  EXPECT_THAT(open_error({.queue_count = 128}), HasSubstr("queue_count 128"));
  EXPECT_THAT(open_error({.payload_bytes_max = 0}), HasSubstr("payload_bytes_max 0"));
  EXPECT_THAT(open_error({.payload_bytes_max = 65'508}), HasSubstr("payload_bytes_max 65508"));
  EXPECT_THAT(open_error({.steering = {.shift_bits = 32}}), HasSubstr("shift_bits 32"));
  EXPECT_THAT(open_error({.steering = {.payload_offset_bytes = 70'000}}),
              HasSubstr("payload_offset_bytes 70000"));
  const Endpoint peer = Endpoint::ipv4(0x7f000001, 7);
  EXPECT_THAT(open_error({.queue_count = 2, .peer = peer}), HasSubstr("needs queue_count 1"));
  EXPECT_THAT(open_error({.local = Endpoint::ipv4(0xc0000201, 0)}),  // 192.0.2.1, TEST-NET-1.
              HasSubstr("no interface of this machine has it"));
  EXPECT_THAT(open_error({.multicast = UdpMulticast{.group = peer}}),
              HasSubstr("127.0.0.1:7 is not a multicast group"));
  EXPECT_THAT(open_error({.queue_count = 2,
                          .multicast = UdpMulticast{.group = Endpoint::ipv4(0xefff0001, 7)}}),
              HasSubstr("needs queue_count 1"));
  EXPECT_THAT(open_error({.local = kLoopback4, .peer = *Endpoint::parse("[::1]:7")}),
              HasSubstr("cannot reach the IPv6 peer [::1]:7"));
}

TEST(UdpPort, CountsUnreachableDestinationsAndSendsTheRest) {
  const auto server = open({.local = kLoopback4});
  const auto client = open({.local = kLoopback4});
  const Bytes bytes = numbered(1, 40);
  client->queue(0).transmit(std::array{to(bytes, *Endpoint::parse("[::1]:7")),
                                       to(bytes, Endpoint{}), to(bytes, server->local())});
  EXPECT_EQ(receive(server->queue(0), 1).size(), 1U);
  EXPECT_EQ(client->queue(0).counters().tx_refused, 2U);
  EXPECT_EQ(client->queue(0).counters().tx_packets, 1U);
}

TEST(UdpPort, AbsentPeerDoesNotStopThePort) {
  auto server = open({.local = kLoopback4});
  const Endpoint address = server->local();
  const auto client = open({.local = kLoopback4, .peer = address});
  server.reset();
  const Bytes bytes = numbered(1, 40);
  // Each packet causes ICMP "port unreachable", which the next call to the kernel reports.
  for (uint32_t i = 0; i < 5; i++) {
    client->queue(0).transmit(std::array{to(bytes, address)});
    expect_nothing(client->queue(0));
  }
  server = open({.local = address});
  ASSERT_NE(server, nullptr);
  client->queue(0).transmit(std::array{to(bytes, address), to(bytes, address)});
  EXPECT_EQ(receive(server->queue(0), 2).size(), 2U);
  EXPECT_EQ(client->queue(0).counters().tx_refused, 0U);
  EXPECT_EQ(client->queue(0).counters().peer_refused, 5U);
}

TEST(UdpPort, RefusalOfThePeerEndsAWait) {
  auto server = open({.local = kLoopback4});
  const auto client = open({.local = kLoopback4, .peer = server->local()});
  const Bytes bytes = numbered(1, 40);
  const Endpoint address = server->local();
  server.reset();
  client->queue(0).transmit(std::array{to(bytes, address)});
  client->queue(0).wait(seconds(1000));  // The test's time limit is the assertion.
  expect_nothing(client->queue(0));
  EXPECT_EQ(client->queue(0).counters().peer_refused, 1U);
}

TEST(UdpPort, WarnsAboutRefusedBuffersWithTheRemedy) {
  const auto modest =
      open({.local = kLoopback4, .receive_buffer_bytes = 16384, .send_buffer_bytes = 16384});
  EXPECT_TRUE(modest->warnings().empty());
  // No kernel grants 1 GiB without the privilege to force it.
  const auto greedy =
      open({.local = kLoopback4, .queue_count = 2, .receive_buffer_bytes = 1U << 30});
  if (greedy->warnings().empty()) GTEST_SKIP() << "privileged: the kernel grants what is asked";
  ASSERT_EQ(greedy->warnings().size(), 1U);  // One warning, not one per queue.
  EXPECT_THAT(greedy->warnings()[0], HasSubstr("sysctl -w net.core.rmem_max=1073741824"));
}

// --- multicast ---

/// Sends to two members of `group` on one port, all on the interface `via`.
void send_to_members(const Endpoint& any, const Endpoint& via, Endpoint group) {
  UdpPortConfig member{.local = any,
                       .multicast = UdpMulticast{.group = group, .via = via, .share = true}};
  const auto first = UdpPort::open(member);
  if (!first) GTEST_SKIP() << first.error().text;
  member.local.port = group.port = (*first)->local().port;
  const auto second = UdpPort::open(member);
  ASSERT_TRUE(second) << second.error().text;
  const auto sender = open({.local = any, .multicast = UdpMulticast{.via = via}});
  const std::array<Bytes, 2> sent{numbered(1, 40), numbered(2, 40)};
  sender->queue(0).transmit(std::array{to(sent[0], group), to(sent[1], group)});
  if (sender->queue(0).counters().tx_refused != 0) GTEST_SKIP() << "no route for multicast here";
  for (const auto& port : {std::cref(*first), std::cref(*second)}) {
    const auto arrived = receive(port.get()->queue(0), 2);
    ASSERT_EQ(arrived.size(), 2U);
    EXPECT_EQ(arrived[0].bytes, sent[0]);
    EXPECT_EQ(arrived[1].bytes, sent[1]);
  }
}

// 239.255.12.1 is administratively scoped; on the loopback interface it stays on the machine.
const Endpoint kGroup4 = Endpoint::ipv4(0xefff0c01, 1);

TEST(UdpPort, AllMembersOfAnIpv4GroupReceive) {
  send_to_members(Endpoint::ipv4(0, 0), kLoopback4, kGroup4);
}

TEST(UdpPort, AllMembersOnDualStackPortsReceiveIpv4) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback here";
  send_to_members(Endpoint{}, kLoopback4, kGroup4);
}

TEST(UdpPort, AllMembersOfAnIpv6GroupReceive) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback here";
  // Usually the loopback interface has no route for groups. An interface-local group (ff01::) stays
  // on the machine on any other interface too.
  Endpoint via = loopback6();
  struct if_nameindex* const interfaces = ::if_nameindex();
  for (const struct if_nameindex* i = interfaces; i != nullptr && i->if_index != 0; i++) {
    via.scope_id = i->if_index;
  }
  ::if_freenameindex(interfaces);
  Endpoint group = *Endpoint::parse("[ff01::7269]:1");
  group.scope_id = via.scope_id;
  send_to_members(Endpoint{}, via, group);
}

// --- the kernel refuses trains ---

/// Moves this thread to a network namespace of its own with this loopback MTU.
bool enter_network(int mtu) {
  if (unshare(CLONE_NEWNET) != 0) return false;
  const FileDescriptor control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_mtu = mtu;
  if (ioctl(control.get(), SIOCSIFMTU, &request) != 0) return false;
  request.ifr_flags = IFF_UP;
  return ioctl(control.get(), SIOCSIFFLAGS, &request) == 0;
}

bool run(const char* command) { return std::system(command) == 0; }

/// Packets to addresses that nobody has wait for ARP, and count against the send buffer.
TEST(UdpPort, TellsThatPacketsToAbsentAddressesFillTheSendBuffer) {
  bool made = false;
  std::thread([&] {
    made = unshare(CLONE_NEWNET) == 0 && run("ip link add wire_a type veth peer name wire_b") &&
           run("ip address add 10.77.0.1/24 dev wire_a") && run("ip link set wire_a up") &&
           run("ip link set wire_b up");
    if (!made) return;
    const auto port =
        open({.local = Endpoint::ipv4(0x0a4d0001, 0), .send_buffer_bytes = 128U << 10});
    EXPECT_FALSE(port->queue(0).is_send_crowded());
    const Bytes reply = numbered(1, 100);
    for (uint32_t i = 0; i < 1000 && !port->queue(0).is_send_crowded(); i++) {
      port->queue(0).transmit(std::array{to(reply, Endpoint::ipv4(0x0a4d0002 + i % 200, 12000))});
    }
    EXPECT_TRUE(port->queue(0).is_send_crowded());
  }).join();
  if (!made) GTEST_SKIP() << "needs root, network namespaces and the ip command";
}

TEST(UdpPort, SendsPacketsSinglyIfTheDeviceRefusesTrains) {
  bool entered = false;
  std::thread([&] {
    entered = enter_network(1500);
    if (!entered) return;
    const auto server = open({.local = kLoopback4});
    const auto client = open({.local = kLoopback4});
    std::vector<Bytes> sent;
    std::vector<TxPacket> packets;
    for (uint32_t i = 0; i < 20; i++) sent.push_back(numbered(i, 4136));  // Above the MTU.
    for (uint32_t i = 20; i < 40; i++) sent.push_back(numbered(i, 1400));
    for (const Bytes& bytes : sent) packets.push_back(to(bytes, server->local()));
    for (uint32_t round = 0; round < 2; round++) {
      const uint64_t calls_before = client->queue(0).counters().system_calls;
      client->queue(0).transmit(packets);
      const auto arrived = receive(server->queue(0), sent.size());
      ASSERT_EQ(arrived.size(), sent.size());
      for (size_t i = 0; i < sent.size(); i++) ASSERT_EQ(arrived[i].bytes, sent[i]) << i;
      // The sender learned this in the first round, so one call takes all packets.
      if (round == 1) {
        EXPECT_EQ(client->queue(0).counters().system_calls - calls_before, 1U);
      }
    }
    EXPECT_EQ(client->queue(0).counters().tx_refused, 0U);
  }).join();
  if (!entered) GTEST_SKIP() << "not allowed to make a network namespace";
}

TEST(UdpPort, PacketsOfARefusedTrainKeepTheirSourceAddress) {
  bool entered = false;
  std::thread([&] {
    entered = enter_network(1500);
    if (!entered) return;
    const auto server = open({.local = Endpoint::ipv4(0, 0)});
    const auto client = open({.peer = Endpoint::ipv4(0x7f000002, server->local().port)});
    const Bytes bytes = numbered(1, 4136);  // Above the MTU.
    client->queue(0).transmit(
        std::array{to(bytes, Endpoint::ipv4(0x7f000002, server->local().port))});
    const auto arrived = receive(server->queue(0), 1);
    ASSERT_EQ(arrived.size(), 1U);
    server->queue(0).transmit(std::vector<TxPacket>(3, to(bytes, arrived[0].source)));
    EXPECT_EQ(receive(client->queue(0), 3).size(), 3U);
  }).join();
  if (!entered) GTEST_SKIP() << "not allowed to make a network namespace";
}

TEST(UdpPort, SendsTrainsToOtherDestinationsIfOneHasASmallMtu) {
  bool entered = false;
  std::thread([&] {
    entered = enter_network(65'536) &&
              std::system("ip route replace local 127.0.0.2 dev lo table local mtu 1500") == 0;
    if (!entered) return;
    const auto near = open({.local = kLoopback4});
    const auto far = open({.local = Endpoint::ipv4(0x7f000002, 0)});
    const auto client = open({.local = kLoopback4});
    const Bytes bytes = numbered(1, 4136);  // Above the small MTU.
    const auto calls_of = [&](const UdpPort& server) {
      const uint64_t calls_before = client->queue(0).counters().system_calls;
      client->queue(0).transmit(std::vector<TxPacket>(10, to(bytes, server.local())));
      return client->queue(0).counters().system_calls - calls_before;
    };
    EXPECT_EQ(calls_of(*far), 11U);  // A train that is refused, then each of its packets.
    EXPECT_EQ(calls_of(*far), 1U);   // The sender has learned, and sends single packets at once.
    EXPECT_EQ(receive(far->queue(0), 20).size(), 20U);
    // A train to the other address arrives in one piece.
    EXPECT_EQ(calls_of(*near), 1U);
    const uint64_t calls_before = near->queue(0).counters().system_calls;
    EXPECT_EQ(receive(near->queue(0), 10, 1).size(), 10U);
    EXPECT_EQ(near->queue(0).counters().system_calls - calls_before, 1U);
    EXPECT_EQ(client->queue(0).counters().tx_refused, 0U);
  }).join();
  if (!entered) GTEST_SKIP() << "not allowed to make a network namespace, or no ip program";
}

}  // namespace
}  // namespace tributary::io
