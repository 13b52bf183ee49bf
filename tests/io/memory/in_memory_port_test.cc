// SPDX-License-Identifier: Apache-2.0
// Method: each direction by hand, then full rings, then a random walk against a queue of vectors.
#include "io/memory/in_memory_port.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "tests/io/frames/bytes.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

using engine::Packet;
using engine::PacketLayer;
using engine::TxPacket;

const Endpoint kWorker = Endpoint::ipv4(0x7f000001, 40001);

TEST(InMemoryPort, InjectedPacketsAreReceivedInOrderFromTheirSender) {
  InMemoryPort port({.queue_count = 2});
  ASSERT_TRUE(port.inject(1, numbered(1, 16), kWorker));
  ASSERT_TRUE(port.inject_payload(1, numbered(2, 20), kWorker));
  std::array<Packet, 4> burst;
  EXPECT_EQ(port.queue(0).receive(burst), 0U);
  ASSERT_EQ(port.queue(1).receive(burst), 2U);
  EXPECT_EQ(copy_of(burst[0]), numbered(1, 16));
  EXPECT_EQ(copy_of(burst[1]), numbered(2, 20));
  EXPECT_EQ(burst[1].source, kWorker);
  EXPECT_EQ(burst[1].layer, PacketLayer::kUdpPayload);
  EXPECT_EQ(port.queue(1).counters().rx_packets, 2U);
  EXPECT_EQ(port.queue(1).counters().rx_bytes, 36U);
}

TEST(InMemoryPort, TransmittedPacketsAreKeptUntilTaken) {
  InMemoryPort port({});
  const Bytes payload = numbered(3, 12);
  const std::array<TxPacket, 2> packets{to(payload, kWorker), TxPacket{.destination = kWorker}};
  port.queue(0).transmit(packets);
  const auto sent = port.take_sent(0);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].bytes, payload);
  EXPECT_EQ(sent[0].destination, kWorker);
  EXPECT_TRUE(sent[1].bytes.empty());
  EXPECT_TRUE(port.take_sent(0).empty());
  EXPECT_EQ(port.queue(0).counters().tx_packets, 2U);
  EXPECT_EQ(port.queue(0).counters().tx_bytes, 12U);
}

TEST(InMemoryPort, OnlyFramePortsForwardFramesAndUnchanged) {
  const Bytes frame = numbered(5, 60);
  TxPacket forwarded = to(frame, kWorker);
  forwarded.layer = PacketLayer::kFrame;
  InMemoryPort frames({.layer = PacketLayer::kFrame});
  frames.queue(0).transmit(std::array{forwarded});
  const auto sent = frames.take_sent(0);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].bytes, frame);

  InMemoryPort payloads({});
  payloads.queue(0).transmit(std::array{forwarded});
  EXPECT_TRUE(payloads.take_sent(0).empty());
  EXPECT_EQ(payloads.queue(0).counters().tx_refused, 1U);
}

TEST(InMemoryPort, FramesCarryHeadersBothWays) {
  InMemoryPort port({.layer = PacketLayer::kFrame});
  const Bytes payload = numbered(4, 12);
  ASSERT_TRUE(port.inject_payload(0, payload, kWorker));
  std::array<Packet, 1> burst;
  ASSERT_EQ(port.queue(0).receive(burst), 1U);
  EXPECT_EQ(burst[0].layer, PacketLayer::kFrame);
  EXPECT_EQ(burst[0].source, Endpoint{});  // The program reads it from the headers.
  ASSERT_EQ(burst[0].size, 54U);
  EXPECT_EQ(load_be<uint16_t>(burst[0].data + 34), kWorker.port);
  EXPECT_EQ(load_be<uint16_t>(burst[0].data + 36), 12000);
  EXPECT_EQ(burst[0].data[5], std::byte{0x01});  // To the port's own MAC address.

  port.queue(0).transmit(std::array{to(payload, kWorker)});
  const auto sent = port.take_sent(0);
  ASSERT_EQ(sent.size(), 1U);
  ASSERT_EQ(sent[0].bytes.size(), 54U);
  EXPECT_EQ(load_be<uint16_t>(sent[0].bytes.data() + 34), 12000);
  EXPECT_EQ(load_be<uint16_t>(sent[0].bytes.data() + 36), kWorker.port);
  EXPECT_EQ(number_of({sent[0].bytes.data() + 42, 12}), 4U);
}

TEST(InMemoryPort, FullQueuesAndOversizedPacketsAreRefusedAndCounted) {
  InMemoryPort port({.payload_bytes_max = 100, .rx_packets_max = 2, .tx_packets_max = 1});
  EXPECT_FALSE(port.inject(0, Bytes(300), kWorker));
  EXPECT_EQ(port.queue(0).counters().rx_truncated, 1U);
  EXPECT_TRUE(port.inject(0, numbered(1, 12), kWorker));
  EXPECT_TRUE(port.inject(0, numbered(2, 12), kWorker));
  EXPECT_FALSE(port.inject(0, numbered(3, 12), kWorker));

  const Bytes small(10);
  const Bytes large(101);
  port.queue(0).transmit(std::array{to(large, kWorker), to(small, kWorker), to(small, kWorker)});
  EXPECT_EQ(port.queue(0).counters().tx_refused, 2U);
  EXPECT_EQ(port.take_sent(0).size(), 1U);

  InMemoryPort frames({.layer = PacketLayer::kFrame});  // An IPv4 port cannot send to IPv6.
  frames.queue(0).transmit(std::array{to(small, *Endpoint::parse("[::1]:7"))});
  EXPECT_EQ(frames.queue(0).counters().tx_refused, 1U);
}

TEST(InMemoryPort, ReceivedPacketsStayUntilTheNextReceive) {
  InMemoryPort port({.rx_packets_max = 2});
  ASSERT_TRUE(port.inject(0, numbered(1, 12), kWorker));
  std::array<Packet, 1> burst;
  ASSERT_EQ(port.queue(0).receive(burst), 1U);
  // One slot is lent; one more packet fits and does not touch it.
  EXPECT_TRUE(port.inject(0, numbered(2, 12), kWorker));
  EXPECT_FALSE(port.inject(0, numbered(3, 12), kWorker));
  EXPECT_EQ(copy_of(burst[0]), numbered(1, 12));
  ASSERT_EQ(port.queue(0).receive(burst), 1U);
  EXPECT_EQ(copy_of(burst[0]), numbered(2, 12));
}

TEST(InMemoryPort, RandomWalkMatchesAQueue) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr uint32_t kCapacity = 7;
  InMemoryPort port({.payload_bytes_max = 64, .rx_packets_max = kCapacity});
  std::deque<Bytes> model;
  uint32_t lent = 0;
  for (uint32_t step = 0; step < 20'000; step++) {
    if (prng.chance(0.6)) {
      const Bytes bytes = numbered(step, 12 + prng.below(52));
      const bool taken = port.inject(0, bytes, kWorker);
      ASSERT_EQ(taken, model.size() + lent < kCapacity) << "step " << step;
      if (taken) model.push_back(bytes);
    } else {
      std::array<Packet, 3> burst;
      const uint32_t count = port.queue(0).receive(std::span(burst).first(prng.below(4)));
      for (uint32_t i = 0; i < count; i++) {
        ASSERT_FALSE(model.empty());
        ASSERT_EQ(copy_of(burst[i]), model.front()) << "step " << step;
        model.pop_front();
      }
      lent = count;
    }
    ASSERT_EQ(port.waiting_count(0), model.size());
  }
}

}  // namespace
}  // namespace tributary::io
