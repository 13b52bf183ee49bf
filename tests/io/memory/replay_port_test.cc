// SPDX-License-Identifier: Apache-2.0
// Method: the sequence and the checksum by hand.
#include "io/memory/replay_port.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/io/frames/bytes.h"

namespace tributary::io {
namespace {

using engine::Packet;

TEST(ReplayPort, RepeatsItsPacketsUpToTheCount) {
  std::array<Bytes, 3> storage{numbered(0, 12), numbered(1, 12), numbered(2, 12)};
  std::array<Packet, 3> packets;
  for (uint32_t i = 0; i < 3; i++) {
    packets[i].data = storage[i].data();
    packets[i].size = 12;
  }
  const ReplaySource source{.packets = packets, .packet_count = 8};
  ReplayPort port(std::array{source, ReplaySource{}});

  std::vector<uint32_t> seen;
  std::array<Packet, 2> burst;
  while (!port.done(0)) {
    const uint32_t count = port.queue(0).receive(burst);
    ASSERT_GT(count, 0U);
    for (uint32_t i = 0; i < count; i++) {
      EXPECT_EQ(burst[i].data, storage[number_of(burst[i].bytes())].data());  // No copy.
      seen.push_back(number_of(burst[i].bytes()));
    }
  }
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(port.queue(0).receive(burst), 0U);
  EXPECT_EQ(port.queue(0).counters().rx_packets, 8U);
  EXPECT_EQ(port.queue(0).counters().rx_bytes, 96U);
  EXPECT_EQ(port.queue(1).receive(burst), 0U);
  EXPECT_TRUE(port.done(1));
}

TEST(ReplayPort, ChecksumFoldsFirstBytesAndSizes) {
  ReplayPort port(std::array{ReplaySource{}});
  const Bytes eight = from_hex("00 00 00 00 00 00 01 00");
  const Bytes four = from_hex("ff ff ff ff");
  const Endpoint worker = Endpoint::ipv4(0x7f000001, 40001);
  port.queue(0).transmit(std::array{to(eight, worker), to(four, worker)});
  EXPECT_EQ(port.checksum(0), 0x100U + 8 + 4);
  EXPECT_EQ(port.queue(0).counters().tx_packets, 2U);
  EXPECT_EQ(port.queue(0).counters().tx_bytes, 12U);
}

}  // namespace
}  // namespace tributary::io
