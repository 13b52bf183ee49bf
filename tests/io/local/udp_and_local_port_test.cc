// SPDX-License-Identifier: Apache-2.0
// Method:  a server's port with a client on each side in this process: packets both ways, sleep,
//          fairness. Waits only in the port and for other threads.
#include "io/local/udp_and_local_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "tests/io/local/local_bed.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

struct BothBed {
  BothBed() : server(UdpAndLocalPort::open({.local = Endpoint::ipv4(0x7f000001, 0)}).value()) {
    local = std::make_unique<Client>(server->local());
    EXPECT_NE(local->port, nullptr) << local->error;
    udp = UdpPort::open({.peer = server->local()}).value();
  }
  [[nodiscard]] engine::PortQueue& queue() const { return server->queue(0); }

  void send_udp(const Bytes& bytes) const {
    engine::TxPacket packet;
    packet.data = bytes.data();
    packet.size = static_cast<uint32_t>(bytes.size());
    packet.destination = server->local();
    udp->queue(0).transmit(std::span(&packet, 1));
  }
  /// Receives one packet by sleeping as often as needed.
  [[nodiscard]] engine::Packet receive() const {
    std::array<engine::Packet, 1> burst;
    while (queue().receive(burst) == 0) queue().wait(seconds(3600));
    return burst[0];
  }

  std::unique_ptr<UdpAndLocalPort> server;
  std::unique_ptr<Client> local;
  std::unique_ptr<UdpPort> udp;
};

TEST(UdpAndLocalPortTest, ServesBothSides) {
  const BothBed bed;
  bed.send_udp(bytes_of("udp"));
  const engine::Packet from_udp = bed.receive();
  EXPECT_EQ(copy(from_udp), bytes_of("udp"));
  const Endpoint udp_source = from_udp.source;
  EXPECT_FALSE(is_local_client(udp_source));
  bed.local->send(bytes_of("local"));
  const engine::Packet from_local = bed.receive();
  EXPECT_EQ(copy(from_local), bytes_of("local"));
  // One call sends to both.
  const Bytes answer = bytes_of("answer");
  std::array<engine::TxPacket, 3> packets;
  for (engine::TxPacket& packet : packets) {
    packet.data = answer.data();
    packet.size = static_cast<uint32_t>(answer.size());
    packet.destination = udp_source;
  }
  packets[1].destination = from_local.source;
  bed.queue().transmit(packets);
  EXPECT_EQ(bed.local->receive(), answer);
  std::array<engine::Packet, 4> burst;
  uint32_t received = 0;
  await([&] {
    received += bed.udp->queue(0).receive(burst);
    return received == 2;
  });
  const engine::PortCounters counters = bed.queue().counters();
  EXPECT_EQ(counters.rx_packets, 2U);
  EXPECT_EQ(counters.tx_packets, 3U);
  EXPECT_EQ(counters.tx_refused, 0U);
}

TEST(UdpAndLocalPortTest, SleepsOnBothSides) {
  const BothBed bed;
  // Each packet is sent by another thread, while this one sleeps or is about to.
  for (uint32_t i = 0; i < 50; i++) {
    const Bytes bytes(1 + i, static_cast<std::byte>(i));
    std::thread sender([&] {
      if (i % 2 == 0) {
        bed.local->send(bytes);
      } else {
        bed.send_udp(bytes);
      }
    });
    EXPECT_EQ(copy(bed.receive()), bytes);
    sender.join();
  }
}

TEST(UdpAndLocalPortTest, NeitherSideKeepsTheOtherOut) {
  const BothBed bed;
  bed.local->send(bytes_of("local"));
  static_cast<void>(bed.receive());
  std::array<engine::Packet, 1> burst;
  uint32_t from_local = 0;
  uint32_t from_udp = 0;
  for (uint32_t i = 0; i < 100; i++) {  // Both always have a packet.
    bed.local->send(bytes_of("local"));
    bed.send_udp(bytes_of("udp"));
    ASSERT_EQ(bed.queue().receive(burst), 1U);
    (is_local_client(burst[0].source) ? from_local : from_udp)++;
  }
  EXPECT_GE(from_local, 20U);
  EXPECT_GE(from_udp, 20U);
}

TEST(UdpAndLocalPortTest, PacketForAClosedClientLeavesByNoPort) {
  const BothBed bed;
  bed.local->send(bytes_of("hello"));
  const Endpoint source = bed.receive().source;
  bed.local->port.reset();
  await([&] { return bed.server->local_server()->stats().connections == 0; });
  std::array<engine::Packet, 1> burst;
  static_cast<void>(bed.queue().receive(burst));
  const Bytes bytes = bytes_of("answer");
  engine::TxPacket packet;
  packet.data = bytes.data();
  packet.size = static_cast<uint32_t>(bytes.size());
  packet.destination = source;
  bed.queue().transmit(std::span(&packet, 1));
  EXPECT_EQ(bed.queue().counters().tx_refused, 1U);
  EXPECT_EQ(bed.queue().counters().tx_packets, 0U);
}

TEST(UdpAndLocalPortTest, WarnsIfTheNameIsTaken) {
  // No other test uses 127.0.0.2, so none gets this port while its name is taken.
  UdpPortConfig config{.local = Endpoint::ipv4(0x7f000002, 0)};
  config.local = UdpPort::open(config).value()->local();
  const auto holder = unix_socket();
  ASSERT_TRUE(bind_name(holder->get(), local_name(config.local)).has_value());
  const auto port = UdpAndLocalPort::open(config);
  ASSERT_TRUE(port.has_value()) << port.error().text;
  EXPECT_EQ((*port)->local_server(), nullptr);
  ASSERT_FALSE((*port)->warnings().empty());
  EXPECT_THAT((*port)->warnings().back(), HasSubstr("use UDP instead of shared memory"));
}

}  // namespace
}  // namespace tributary::io
