// SPDX-License-Identifier: Apache-2.0
// Method: frames from one end of a veth pair to sockets at the other, in a network namespace of the
//         test's own (root only). Each frame carries a number.
#include "io/inline/frame_socket.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "tests/io/veth_wire.h"

namespace tributary::io {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint16_t kIpv4 = 0x0800, kIpv6 = 0x86dd;
constexpr size_t kTypeAt = 12;
constexpr size_t kNumberAt = 38;  ///< Behind Ethernet, IPv4 and the UDP ports.

/// Enough for all frames of a test.
constexpr uint32_t kBufferBytes = 64U << 20;

std::unique_ptr<FrameSocket> open(const char* interface, FanoutGroup* group = nullptr) {
  auto socket =
      FrameSocket::open({.interface = interface, .receive_buffer_bytes = kBufferBytes}, group);
  EXPECT_TRUE(socket) << socket.error().text;
  return socket ? *std::move(socket) : nullptr;
}

/// Returns a UDP packet over IPv4. Its number chooses the source address and so the flow.
Bytes numbered(uint32_t number) {
  Bytes frame(60);
  store_be<uint16_t>(frame.data() + kTypeAt, kIpv4);
  frame[14] = std::byte{0x45};
  store_be<uint16_t>(frame.data() + 16, 46);  // Total length.
  frame[23] = std::byte{17};                  // UDP.
  store_be<uint32_t>(frame.data() + 26, 0x0a000000 + number);
  store_be<uint32_t>(frame.data() + 30, 0x0a800001);
  store_be<uint32_t>(frame.data() + kNumberAt, number);
  return frame;
}

void send(FrameSocket& from, const Bytes& frame, FrameNotes notes = {}) {
  const std::array<InlineSide::Outgoing, 1> out{{{.bytes = frame, .notes = notes}}};
  EXPECT_EQ(from.send(out).frames, 1U);
}

/// Adds the numbers of all frames that have arrived. The kernels' own frames have none.
void take(FrameSocket& at, std::map<uint32_t, uint32_t>& times) {
  for (uint32_t got = 0; (got = at.receive(InlineSide::kFramesEach)) > 0;) {
    for (uint32_t i = 0; i < got; i++) {
      const std::span<std::byte> frame = at.frame(i);
      if (frame.size() < 60 || load_be<uint16_t>(frame.data() + kTypeAt) != kIpv4) continue;
      times[load_be<uint32_t>(frame.data() + kNumberAt)]++;
    }
  }
}

TEST(FrameSocket, SharesFramesOnceAllSocketsHaveJoined) {
  on_a_wire([] {
    const auto sender = open("wire_a"), witness = open("wire_b");
    for (const Steering steering : {Steering::kByFlow, Steering::kByDestination}) {
      FanoutGroup group{.steering = steering, .socket_count = 2};
      const auto first = open("wire_b", &group);
      ASSERT_TRUE(sender && witness && first);
      std::map<uint32_t, uint32_t> times, witnessed;
      send(*sender, numbered(1));
      while (!witnessed.contains(1)) take(*witness, witnessed);
      const auto second = open("wire_b", &group);
      ASSERT_TRUE(second);
      for (uint32_t i = 2; i <= 65; i++) send(*sender, numbered(i));
      while (times.size() < 64) {
        take(*first, times);
        take(*second, times);
      }
      EXPECT_FALSE(times.contains(1));
      for (const auto& [number, count] : times) EXPECT_EQ(count, 1U) << number;
    }
  });
}

TEST(FrameSocket, NoFrameArrivesTwiceWhileSocketsOpen) {
  on_a_wire([] {
    const auto sender = open("wire_a");
    ASSERT_TRUE(sender);
    for (uint32_t round = 0; round < 5; round++) {
      std::atomic<bool> has_begun{false}, stop{false};
      std::thread flood([&] {
        for (uint32_t number = 1; !stop; number++) {
          send(*sender, numbered(number));
          has_begun = true;
        }
      });
      while (!has_begun) std::this_thread::yield();
      FanoutGroup group{.socket_count = 4};
      std::vector<std::unique_ptr<FrameSocket>> sockets;
      for (uint32_t i = 0; i < group.socket_count; i++) sockets.push_back(open("wire_b", &group));
      std::map<uint32_t, uint32_t> times;
      while (times.empty()) take(*sockets.front(), times);
      stop = true;
      flood.join();
      for (const auto& socket : sockets) take(*socket, times);
      for (const auto& [number, count] : times) ASSERT_EQ(count, 1U) << number;
    }
  });
}

TEST(FrameSocket, DropsAndCountsFramesLongerThanABuffer) {
  on_a_wire([] {
    if (!run("ip link set wire_a gso_max_size 200000")) GTEST_SKIP() << "needs BIG TCP";
    const auto sender = open("wire_a"), receiver = open("wire_b");
    ASSERT_TRUE(sender && receiver);
    constexpr uint16_t kTransportAt = 14 + 40;
    Bytes train(100'000);  // TCP segments over IPv6, whose length field is 0.
    store_be<uint16_t>(train.data() + kTypeAt, kIpv6);
    train[14] = std::byte{0x60};
    train[20] = std::byte{6};  // TCP.
    train[kTransportAt + 12] = std::byte{0x50};
    const FrameNotes notes{.flags = FrameNotes::kNeedsChecksum,
                           .gso_type = 4,  // TCP over IPv6.
                           .header_bytes = kTransportAt + 20,
                           .gso_bytes = 1'400,
                           .checksum_start = kTransportAt,
                           .checksum_offset = 16};
    send(*sender, numbered(1));
    send(*sender, train, notes);
    send(*sender, numbered(2));
    std::map<uint32_t, uint32_t> times;
    while (times.size() < 2) {
      const uint32_t got = receiver->receive(InlineSide::kFramesEach);
      for (uint32_t i = 0; i < got; i++) {
        const std::span<std::byte> frame = receiver->frame(i);
        EXPECT_LE(frame.size(), 4'200U + 14);
        if (load_be<uint16_t>(frame.data() + kTypeAt) != kIpv4) continue;
        times[load_be<uint32_t>(frame.data() + kNumberAt)]++;
        // The notes belong to this frame, not to the skipped one.
        EXPECT_EQ(receiver->notes_of(frame)->gso_type, 0);
      }
    }
    EXPECT_EQ(times, (std::map<uint32_t, uint32_t>{{1, 1}, {2, 1}}));
    EXPECT_EQ(receiver->rx_truncated(), 1U);
    EXPECT_EQ(receiver->trains(), 0U);
  });
}

}  // namespace
}  // namespace tributary::io
