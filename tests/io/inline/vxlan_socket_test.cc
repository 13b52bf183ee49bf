// SPDX-License-Identifier: Apache-2.0
// Method: a tunnel on the loopback interface and plain sockets at its other end: good frames, every
// datagram that must not pass, random bytes, and frames whose checksum the kernel left open.
#include "io/inline/vxlan_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/internet_checksum.h"
#include "base/prng.h"
#include "tests/support/seed.h"
#include "tests/support/udp_peer.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

using testing::UdpPeer;

constexpr uint32_t kNetwork = 42;

Bytes frame_of(uint32_t size, uint32_t fill) { return Bytes(size, static_cast<std::byte>(fill)); }

Bytes datagram_of(const Bytes& frame, uint32_t network = kNetwork) {
  const auto header = wire::vxlan_header(network);
  Bytes datagram(header.begin(), header.end());
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  return datagram;
}

class VxlanSocketTest : public ::testing::Test {
 protected:
  VxlanSocketTest()
      : tunnel_(*VxlanSocket::open({.local = Endpoint::ipv4(INADDR_LOOPBACK, 0),
                                    .peer = peer_.at(),
                                    .network = kNetwork})) {}
  /// Waits for `count` frames.
  std::vector<Bytes> receive(size_t count) {
    constexpr int kPatienceMs = 20'000;
    std::vector<Bytes> frames;
    while (frames.size() < count) {
      pollfd ready{.fd = tunnel_->fd(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, kPatienceMs) != 1) break;
      const uint32_t got = tunnel_->receive(InlineSide::kFramesEach);
      for (uint32_t i = 0; i < got; i++) {
        frames.emplace_back(tunnel_->frame(i).begin(), tunnel_->frame(i).end());
      }
    }
    return frames;
  }

  UdpPeer peer_;
  std::unique_ptr<VxlanSocket> tunnel_;
};

TEST_F(VxlanSocketTest, TakesFramesFromThePeerWhateverTheSourcePort) {
  const UdpPeer other_port;
  peer_.send(datagram_of(frame_of(60, 1)), tunnel_->local());
  other_port.send(datagram_of(frame_of(9'000, 2)), tunnel_->local());
  EXPECT_THAT(receive(2), ::testing::ElementsAre(frame_of(60, 1), frame_of(9'000, 2)));
  EXPECT_EQ(tunnel_->foreign() + tunnel_->malformed(), 0U);
}

TEST_F(VxlanSocketTest, RefusesForeignAndMalformedDatagrams) {
  const UdpPeer stranger(INADDR_LOOPBACK + 1);
  stranger.send(datagram_of(frame_of(60, 1)), tunnel_->local());
  peer_.send(datagram_of(frame_of(60, 1), kNetwork + 1), tunnel_->local());
  peer_.send(datagram_of(frame_of(13, 1)), tunnel_->local());
  peer_.send({}, tunnel_->local());
  Bytes no_flag = datagram_of(frame_of(60, 1));
  no_flag[0] = {};
  peer_.send(no_flag, tunnel_->local());
  peer_.send(datagram_of(frame_of(60, 9)), tunnel_->local());
  EXPECT_THAT(receive(1), ::testing::ElementsAre(frame_of(60, 9)));
  EXPECT_EQ(tunnel_->foreign(), 2U);  // Another address, and another network.
  EXPECT_EQ(tunnel_->malformed(), 3U);
}

TEST_F(VxlanSocketTest, RandomDatagramsAreFramesOrCounted) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  uint64_t good = 0;
  for (uint32_t round = 0; round < 50; round++) {
    std::vector<Bytes> expected;
    for (uint32_t i = 0; i < 20; i++) {
      Bytes bytes(prng.below(200));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(256));
      if (prng.chance(0.5)) {
        bytes.resize(std::max<size_t>(bytes.size(), 14));
        expected.push_back(bytes);
        bytes = datagram_of(bytes);
      } else if (wire::vxlan_frame(bytes, kNetwork)) {
        continue;
      }
      peer_.send(bytes, tunnel_->local());
    }
    // The last one is good, so that the round's end shows.
    expected.push_back(frame_of(14, round));
    peer_.send(datagram_of(expected.back()), tunnel_->local());
    const std::vector<Bytes> frames = receive(expected.size());
    ASSERT_EQ(frames, expected);
    good += frames.size();
  }
  EXPECT_GT(good, 50U);
  EXPECT_GT(tunnel_->malformed(), 0U);
}

TEST_F(VxlanSocketTest, SendsFramesInOrder) {
  std::vector<Bytes> frames;
  std::vector<InlineSide::Outgoing> outgoing;
  for (uint32_t i = 0; i < 100; i++) frames.push_back(frame_of(14 + i, i));
  for (const Bytes& frame : frames) outgoing.push_back({.bytes = frame, .notes = {}});
  const InlineSide::Sent sent = tunnel_->send(outgoing);
  EXPECT_EQ(sent.frames, 100U);
  EXPECT_EQ(sent.bytes, 100U * 14 + 99 * 100 / 2);  // Without the tunnel's headers.
  for (const Bytes& frame : frames) {
    const auto datagram = peer_.receive();
    ASSERT_TRUE(datagram);
    EXPECT_EQ(*datagram, datagram_of(frame));
  }
}

TEST_F(VxlanSocketTest, CompletesChecksumsAndRefusesTrains) {
  Bytes frame = frame_of(60, 3);
  frame[40] = std::byte{0x12};  // The sum of a pseudo-header, at 34 + 6.
  frame[41] = std::byte{0x34};
  const FrameNotes open{
      .flags = FrameNotes::kNeedsChecksum, .checksum_start = 34, .checksum_offset = 6};
  FrameNotes outside = open;
  outside.checksum_offset = 25;  // 34 + 25 + 2 > 60.
  const Bytes large = frame_of(65'510, 0);
  const std::array<InlineSide::Outgoing, 5> outgoing{{{.bytes = frame, .notes = {.gso_type = 1}},
                                                      {.bytes = frame, .notes = outside},
                                                      {.bytes = large, .notes = {}},
                                                      {.bytes = frame, .notes = open},
                                                      {.bytes = frame, .notes = {}}}};
  const InlineSide::Sent sent = tunnel_->send(outgoing);
  EXPECT_EQ(sent.frames, 2U);
  EXPECT_EQ(sent.bytes, 2U * 60);
  const auto completed = peer_.receive();
  ASSERT_TRUE(completed);
  ASSERT_EQ(completed->size(), 68U);
  // With its checksum, and the pseudo-header's sum in addition, the segment sums to 0xffff.
  const auto segment = std::span(*completed).subspan(8 + 34);
  const auto sum = fold_sum(uint64_t{word_sum(segment)} + 0x1234);
  EXPECT_EQ(sum, 0xffff);
  EXPECT_EQ(std::to_integer<int>((*completed)[8 + 39]), 3);
  EXPECT_EQ(std::to_integer<int>((*completed)[8 + 42]), 3);
  EXPECT_EQ(*peer_.receive(), datagram_of(frame));
}

TEST(VxlanSocket, RefusesAnAddressThatIsNotHere) {
  const auto refused = VxlanSocket::open(
      {.local = Endpoint::ipv4(0xc0000201, 4789), .peer = Endpoint::ipv4(INADDR_LOOPBACK, 1)});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text, HasSubstr("192.0.2.1:4789: cannot bind"));
}

}  // namespace
}  // namespace tributary::io
