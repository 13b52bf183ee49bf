// SPDX-License-Identifier: Apache-2.0
// Method: frames and messages by hand, over an in-memory port.
#include "programs/program_port.h"

#include <gtest/gtest.h>

#include <array>

#include "io/memory/in_memory_port.h"

namespace tributary::programs {
namespace {

TEST(ProgramPort, CountsFramesAndRelaysMessages) {
  std::vector<size_t> relayed;
  MessageRelay relay([&](std::span<const std::byte> message) -> Result<void> {
    relayed.push_back(message.size());
    return {};
  });
  auto inner = std::make_unique<io::InMemoryPort>(io::InMemoryPortConfig{});
  io::InMemoryPort& wire = *inner;
  ProgramPort port(std::move(inner), &relay);
  const std::array<std::byte, 100> bytes{};
  std::array<engine::TxPacket, 3> packets{};
  for (engine::TxPacket& packet : packets) packet.data = bytes.data();
  packets[0].size = 60;
  packets[1].size = 7;
  packets[2].size = 100;
  packets[0].layer = packets[2].layer = engine::PacketLayer::kFrame;
  packets[1].layer = engine::PacketLayer::kUdpPayload;
  port.queue(0).transmit(packets);
  EXPECT_EQ(port.forwarded(), (memory::PacketByteCounter{2, 160}));
  EXPECT_EQ(wire.take_sent(0).size(), 1U);  // This port refuses frames; all were given to it.
  EXPECT_EQ(port.queue(0).counters().tx_refused, 2U);
  relay.finish();
  EXPECT_EQ(relayed, std::vector<size_t>{7});
}

TEST(ProgramPort, IsTheInnerPortOtherwise) {
  auto inner = std::make_unique<io::InMemoryPort>(io::InMemoryPortConfig{});
  io::InMemoryPort& wire = *inner;
  ProgramPort port(std::move(inner), /*relay=*/nullptr);
  const std::array<std::byte, 9> bytes{};
  ASSERT_TRUE(wire.inject(0, bytes, Endpoint::ipv4(1, 2)));
  std::array<engine::Packet, 2> burst;
  EXPECT_EQ(port.queue(0).receive(burst), 1U);
  EXPECT_EQ(burst[0].size, 9U);
  EXPECT_EQ(port.queue(0).counters().rx_packets, 1U);
  EXPECT_EQ(port.local(), wire.local());
  EXPECT_EQ(port.payload_bytes_max(), wire.payload_bytes_max());
}

}  // namespace
}  // namespace tributary::programs
