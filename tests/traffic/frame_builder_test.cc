// SPDX-License-Identifier: Apache-2.0
// Method: one SYN byte by byte, then the sizes of each combination of headers, then random frames
// whose lengths and checksums an independent reader verifies.
#include "traffic/frame_builder.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/seed.h"
#include "tests/traffic/check_frame.h"
#include "wire/headers.h"

namespace tributary::traffic {
namespace {

using Frame = std::array<std::byte, kFrameBytesMax>;

std::vector<uint8_t> bytes_of(const Frame& frame, uint32_t from, uint32_t to) {
  std::vector<uint8_t> bytes;
  for (uint32_t i = from; i < to; i++) bytes.push_back(std::to_integer<uint8_t>(frame[i]));
  return bytes;
}

FrameContents syn() {
  FrameContents contents;
  contents.source = *Endpoint::parse("10.0.0.1:4096");
  contents.destination = *Endpoint::parse("198.18.0.1:443");
  contents.tcp_flags = wire::kTcpSyn;
  contents.sequence_number = 0x01020304;
  return contents;
}

TEST(FrameBuilder, SynByHand) {
  Frame frame;
  frame.fill(std::byte{0xee});  // Stale bytes of an earlier packet.
  ASSERT_EQ(build_frame(syn(), frame), 60U);
  EXPECT_EQ(bytes_of(frame, 0, 14),
            (std::vector<uint8_t>{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00}));
  // 40 bytes, don't fragment, time to live 64, TCP. The words without the checksum add up to
  // 4500 + 0028 + 4000 + 4006 + 0a00 + 0001 + c612 + 0001 = 19542, folded 9543; its complement is
  // 6abc.
  EXPECT_EQ(bytes_of(frame, 14, 34),
            (std::vector<uint8_t>{0x45, 0,    0,  40, 0, 0, 0x40, 0,  64, 6,
                                  0x6a, 0xbc, 10, 0,  0, 1, 198,  18, 0,  1}));
  // Port 4096 to 443, sequence number, no acknowledgment, five words, SYN, window 65,535. Pseudo
  // header: 0a00 + 0001 + c612 + 0001 + 0006 + 0014 = d02e. Segment: 1000 + 01bb + 0102 + 0304 +
  // 5002 + ffff = 165c2. Sum 235f0, folded 35f2; its complement is ca0d.
  EXPECT_EQ(bytes_of(frame, 34, 54),
            (std::vector<uint8_t>{0x10, 0, 1,    0xbb, 1,    2,    3,    4,    0, 0,
                                  0,    0, 0x50, 2,    0xff, 0xff, 0xca, 0x0d, 0, 0}));
  EXPECT_EQ(bytes_of(frame, 54, 60), std::vector<uint8_t>(6));
}

TEST(FrameBuilder, SizesOfEachKind) {
  Frame frame;
  FrameContents contents = syn();
  EXPECT_EQ(ip_header_bytes(contents), 40U);
  contents.ip_bytes = 1500;
  EXPECT_EQ(build_frame(contents, frame), 1514U);
  contents.transport = Transport::kUdp;
  EXPECT_EQ(ip_header_bytes(contents), 28U);
  contents.ip_bytes = 46;
  EXPECT_EQ(build_frame(contents, frame), 60U);
  contents.ip_bytes = 47;
  EXPECT_EQ(build_frame(contents, frame), 61U);

  contents.source = *Endpoint::parse("[2001:db8:1::1]:4096");
  contents.destination = *Endpoint::parse("[2001:db8:2::1]:443");
  contents.ip_bytes = 0;
  EXPECT_EQ(build_frame(contents, frame), 62U);  // 14 + 40 + 8.
  contents.transport = Transport::kTcp;
  EXPECT_EQ(build_frame(contents, frame), 74U);  // 14 + 40 + 20.
}

TEST(FrameBuilder, RandomFramesHaveRightLengthsAndChecksums) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Frame frame;
  for (int i = 0; i < 5'000; i++) {
    const bool ipv6 = prng.chance(0.5);
    FrameContents contents;
    const auto address = [&](const char* ipv6_address) {
      Endpoint endpoint = ipv6 ? *Endpoint::parse(ipv6_address) : Endpoint::ipv4(prng.any_u32(), 0);
      if (ipv6) endpoint.address[15] = static_cast<uint8_t>(prng.any_u32());
      endpoint.port = static_cast<uint16_t>(prng.any_u32());
      return endpoint;
    };
    contents.source = address("[2001:db8:1::1]:1");
    contents.destination = address("[2001:db8:2::1]:1");
    contents.transport = prng.chance(0.5) ? Transport::kTcp : Transport::kUdp;
    contents.tcp_flags = prng.below(256);
    contents.sequence_number = prng.any_u32();
    contents.acknowledgment_number = prng.any_u32();
    contents.ip_bytes = prng.below(1501);
    const uint32_t size = build_frame(contents, frame);
    const auto read = testing::check_frame(std::span<const std::byte>(frame).first(size));
    ASSERT_EQ(read.ipv6, ipv6);
    ASSERT_EQ(read.protocol, contents.transport == Transport::kTcp ? 6U : 17U);
    ASSERT_EQ(read.ip_bytes, std::max(contents.ip_bytes, ip_header_bytes(contents)));
    if (read.protocol == 6) {
      ASSERT_EQ(read.sequence_number, contents.sequence_number);
      ASSERT_EQ(read.tcp_flags, contents.tcp_flags);
    }
  }
}

}  // namespace
}  // namespace tributary::traffic
