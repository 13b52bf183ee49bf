// SPDX-License-Identifier: Apache-2.0
// Method: each request that a program may make of the machine, by hand, over an in-memory port.
#include "engine/live/live_machine.h"

#include <gtest/gtest.h>

#include "base/byte_order.h"
#include "io/memory/in_memory_port.h"

namespace tributary::engine {
namespace {

using microcode::Accumulate;
using Bytes = std::vector<std::byte>;

const Endpoint kFirst = Endpoint::ipv4(1, 1);
const Endpoint kSecond = Endpoint::ipv4(2, 2);

Bytes bytes_of(uint32_t size, uint8_t value) { return Bytes(size, std::byte{value}); }

class LiveMachineTest : public ::testing::Test {
 protected:
  explicit LiveMachineTest(PacketLayer layer = PacketLayer::kUdpPayload)
      : port_({.layer = layer, .payload_bytes_max = 2000, .tx_packets_max = 4096}) {}

  Packet packet_of(Bytes& bytes) {
    return {.data = bytes.data(),
            .size = static_cast<uint32_t>(bytes.size()),
            .layer = PacketLayer::kUdpPayload,
            .source = kFirst};
  }
  io::InMemoryPort port_;
  LiveMachine machine_{port_.queue(0)};
};

TEST_F(LiveMachineTest, HeadIsAtMost192BytesOfThePacket) {
  Bytes bytes(500);
  Packet packet = packet_of(bytes);
  machine_.begin_burst(Instant(seconds(3)));
  machine_.begin_packet(packet);
  EXPECT_EQ(machine_.head().size(), kHeadBytes);
  EXPECT_EQ(machine_.packet_size(), 500U);
  EXPECT_EQ(machine_.source(), kFirst);
  EXPECT_FALSE(machine_.arrived_as_frame());
  EXPECT_EQ(machine_.now(), Instant(seconds(3)));
  Bytes small(20);
  Packet shorter = packet_of(small);
  machine_.begin_packet(shorter);
  EXPECT_EQ(machine_.head().size(), 20U);
}

class FrameMachine : public LiveMachineTest {
 protected:
  FrameMachine() : LiveMachineTest(PacketLayer::kFrame) {}

  /// Begins a frame of `size` bytes 0, 1, 2, … behind its headroom.
  void begin(uint32_t size) {
    memory_.resize(kHeadroomBytes + size);
    for (uint32_t i = 0; i < size; i++) memory_[kHeadroomBytes + i] = static_cast<std::byte>(i);
    packet_ = {.data = memory_.data() + kHeadroomBytes,
               .size = size,
               .layer = PacketLayer::kFrame,
               .source = {},
               .headroom_bytes = kHeadroomBytes};
    machine_.begin_packet(packet_);
  }
  Bytes forwarded() {
    machine_.forward();
    machine_.flush();
    auto sent = port_.take_sent(0);
    EXPECT_EQ(sent.size(), 1U);
    return sent.at(0).bytes;
  }
  [[nodiscard]] Bytes head() const {
    const auto bytes = machine_.head().read(0, machine_.head().size());
    return {bytes.begin(), bytes.end()};
  }
  Bytes memory_;
  Packet packet_;
};

TEST_F(FrameMachine, HeadersAreRemovedAndPrepended) {
  begin(6);
  machine_.pop_head(4);
  EXPECT_EQ(machine_.packet_size(), 2U);
  EXPECT_EQ(head(), (Bytes{std::byte{4}, std::byte{5}}));
  machine_.push_head(std::array{std::byte{7}, std::byte{8}, std::byte{9}});
  const Bytes expected{std::byte{7}, std::byte{8}, std::byte{9}, std::byte{4}, std::byte{5}};
  EXPECT_EQ(machine_.packet_size(), 5U);
  EXPECT_EQ(head(), expected);
  EXPECT_EQ(forwarded(), expected);
}

// The head ends where it ended when the packet arrived.
TEST_F(FrameMachine, TheTailNeverComesIntoTheHead) {
  begin(500);
  machine_.pop_head(kHeadBytes);
  EXPECT_EQ(machine_.head().size(), 0U);
  EXPECT_EQ(machine_.packet_size(), 500 - kHeadBytes);
  machine_.push_head(bytes_of(kHeadBytes + kHeadroomBytes, 1));
  EXPECT_EQ(machine_.head().size(), kHeadBytes + kHeadroomBytes);
  EXPECT_EQ(forwarded().size(), 500 + kHeadroomBytes);
  begin(500);  // The next packet has a whole head again.
  EXPECT_EQ(machine_.head().size(), kHeadBytes);
}

TEST_F(FrameMachine, TheTailIsReadAndWrittenInChunks) {
  begin(kHeadBytes + 70);
  Bytes chunk(microcode::kTailChunkBytes);
  EXPECT_EQ(machine_.read_tail(0, chunk).await_resume(), 64U);
  EXPECT_EQ(chunk[0], std::byte{192});
  EXPECT_EQ(machine_.read_tail(64, chunk).await_resume(), 6U);
  EXPECT_EQ(chunk[0], std::byte{0});  // The byte 256 of the packet.
  EXPECT_EQ(machine_.read_tail(70, chunk).await_resume(), 0U);
  EXPECT_EQ(machine_.read_tail(UINT32_MAX, chunk).await_resume(), 0U);
  machine_.pop_head(10);  // Offsets count from the same byte.
  machine_.write_tail(68, bytes_of(2, 9)).await_resume();
  EXPECT_DEATH(static_cast<void>(machine_.write_tail(69, bytes_of(2, 9))), "");
  Bytes too_long(65);
  EXPECT_DEATH(static_cast<void>(machine_.read_tail(0, too_long)), "");
  const Bytes sent = forwarded();
  ASSERT_EQ(sent.size(), kHeadBytes + 60U);
  EXPECT_EQ(sent[kHeadBytes + 57], std::byte{3});  // The byte 259 of the packet.
  EXPECT_EQ(Bytes(sent.end() - 2, sent.end()), bytes_of(2, 9));
}

TEST_F(FrameMachine, ShortPacketsHaveNoTail) {
  begin(100);
  Bytes chunk(microcode::kTailChunkBytes);
  EXPECT_EQ(machine_.read_tail(0, chunk).await_resume(), 0U);
  EXPECT_DEATH(static_cast<void>(machine_.write_tail(0, bytes_of(1, 9))), "");
}

TEST_F(FrameMachine, MovesBeyondTheHeadAndItsRoomAreBugs) {
  begin(20);
  EXPECT_DEATH(machine_.pop_head(21), "");
  EXPECT_DEATH(machine_.push_head(bytes_of(kHeadroomBytes + 1, 1)), "");
  machine_.pop_head(1);
  machine_.push_head(bytes_of(kHeadroomBytes + 1, 1));
  EXPECT_DEATH(machine_.push_head(bytes_of(1, 1)), "");
}

TEST_F(LiveMachineTest, PayloadsWithoutAFrameKeepTheirSize) {
  Bytes bytes(20);
  Packet packet = packet_of(bytes);
  machine_.begin_packet(packet);
  EXPECT_DEATH(machine_.pop_head(1), "");
  EXPECT_DEATH(machine_.push_head(bytes_of(1, 1)), "");
}

TEST_F(LiveMachineTest, PacketsLeaveAtFlush) {
  const Bytes payload = bytes_of(30, 1);
  const std::array<Endpoint, 2> both{kFirst, kSecond};
  machine_.send(payload, both);
  EXPECT_TRUE(port_.take_sent(0).empty());
  machine_.flush();
  const auto sent = port_.take_sent(0);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].destination, kFirst);
  EXPECT_EQ(sent[1].destination, kSecond);
  EXPECT_EQ(sent[1].bytes, payload);
  machine_.flush();
  EXPECT_TRUE(port_.take_sent(0).empty());
}

TEST_F(LiveMachineTest, SmallPacketsAreCopied) {
  Bytes payload = bytes_of(kHeadBytes, 1);
  machine_.send_small(payload, kFirst);
  payload = bytes_of(kHeadBytes, 2);
  machine_.send_small(payload, kFirst);
  machine_.flush();
  const auto sent = port_.take_sent(0);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].bytes, bytes_of(kHeadBytes, 1));
  EXPECT_EQ(sent[1].bytes, bytes_of(kHeadBytes, 2));
}

TEST_F(LiveMachineTest, ReleasedPayloadMayBeChanged) {
  Bytes payload = bytes_of(40, 1);
  machine_.send(payload, std::span(&kFirst, 1));
  machine_.release_payload(payload);
  payload = bytes_of(40, 2);
  machine_.flush();
  const auto sent = port_.take_sent(0);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].bytes, bytes_of(40, 1));
}

// Packets that exceed one burst leave early, in order, and none is lost.
TEST_F(LiveMachineTest, SendsMorePacketsThanABurstHolds) {
  const Bytes payload = bytes_of(8, 9);
  const std::vector<Endpoint> many(1500, kSecond);
  machine_.send(payload, many);
  for (uint32_t i = 0; i < 700; i++) {
    Bytes small(4);
    store_be<uint32_t>(small.data(), i);
    machine_.send_small(small, kFirst);
  }
  machine_.flush();
  const auto sent = port_.take_sent(0);
  ASSERT_EQ(sent.size(), 2200U);
  for (uint32_t i = 0; i < 1500; i++) ASSERT_EQ(sent[i].bytes, payload);
  for (uint32_t i = 0; i < 700; i++) {
    ASSERT_EQ(load_be<uint32_t>(sent[1500 + i].bytes.data()), i);
  }
}

TEST_F(LiveMachineTest, AccumulatesBigEndianGradients) {
  Bytes bytes(4 + 3 * 4);
  store_be<uint32_t>(bytes.data() + 4, 5);
  store_be<uint32_t>(bytes.data() + 8, 0xffffffff);  // -1.
  store_be<uint32_t>(bytes.data() + 12, 0x7fffffff);
  Packet packet = packet_of(bytes);
  machine_.begin_packet(packet);
  std::array<int32_t, 4> lanes{99, 99, 99, 77};
  machine_.accumulate(lanes.data(), 4, 3, Accumulate::kFirst).await_resume();
  EXPECT_EQ(lanes, (std::array<int32_t, 4>{5, -1, INT32_MAX, 77}));
  machine_.accumulate(lanes.data(), 4, 3, Accumulate::kAdd).await_resume();
  EXPECT_EQ(lanes, (std::array<int32_t, 4>{10, -2, -2, 77}));  // Wraps.
  LiveMachine::finish_lanes(lanes.data(), 3).await_resume();
  EXPECT_EQ(load_be<uint32_t>(reinterpret_cast<const std::byte*>(lanes.data())), 10U);
  EXPECT_EQ(lanes[3], 77);
}

TEST_F(LiveMachineTest, XtxnsCompleteImmediately) {
  uint64_t word = 1;
  const microcode::Xtxn request{microcode::XtxnKind::kFetchAndOp, &word, 8};
  EXPECT_EQ(LiveMachine::issue(request, [&] { return word++; }).await_resume(), 1U);
  LiveMachine::post(request, [&] { word++; });
  LiveMachine::issue(request, [&] { word++; }).await_resume();
  EXPECT_EQ(word, 4U);
}

class LiveMachineOfFrames : public LiveMachineTest {
 protected:
  LiveMachineOfFrames() : LiveMachineTest(PacketLayer::kFrame) {}
};

TEST_F(LiveMachineTest, CountsDroppedPackets) {
  machine_.drop(0);
  machine_.drop(7);
  EXPECT_EQ(machine_.counters().dropped, 2U);
  EXPECT_EQ(machine_.counters().forwarded, 0U);
}

TEST_F(LiveMachineOfFrames, ForwardsAFrameWithoutACopy) {
  ASSERT_TRUE(port_.inject(0, bytes_of(60, 3), Endpoint{}));
  std::array<Packet, 1> burst;
  ASSERT_EQ(port_.queue(0).receive(burst), 1U);
  machine_.begin_packet(burst[0]);
  EXPECT_TRUE(machine_.arrived_as_frame());
  machine_.forward();
  machine_.flush();
  EXPECT_EQ(machine_.counters().forwarded, 1U);
}

}  // namespace
}  // namespace tributary::engine
