// SPDX-License-Identifier: Apache-2.0
// Method: a frame byte by byte, then bytes that are not such a frame.
#include "tofino/pipeline/udp_frame.h"

#include <gtest/gtest.h>

#include "wire/switchml.h"

namespace tributary::tofino {
namespace {

uint32_t at(const std::vector<std::byte>& bytes, size_t offset) {
  return std::to_integer<uint32_t>(bytes.at(offset));
}

TEST(UdpFrame, FrameMatchesHandWrittenBytes) {
  const std::vector<std::byte> payload{std::byte{0xaa}, std::byte{0xbb}};
  const auto frame = udp_frame({0x0200'0000'0101, 0x0a000101, 4000},
                               {0x0200'0000'0001, 0x0a0000fe, wire::kSwitchmlPort}, payload);
  ASSERT_EQ(frame.size(), 44U);
  EXPECT_EQ(at(frame, 0), 0x02U);  // To.
  EXPECT_EQ(at(frame, 5), 0x01U);
  EXPECT_EQ(at(frame, 10), 0x01U);  // From: …01:01.
  EXPECT_EQ(at(frame, 11), 0x01U);
  EXPECT_EQ(at(frame, 12), 0x08U);
  EXPECT_EQ(at(frame, 14), 0x45U);
  EXPECT_EQ(at(frame, 17), 30U);  // 20 + 8 + 2.
  EXPECT_EQ(at(frame, 22), 64U);
  EXPECT_EQ(at(frame, 23), 17U);
  EXPECT_EQ(at(frame, 34), 0x0fU);  // 4000.
  EXPECT_EQ(at(frame, 35), 0xa0U);
  EXPECT_EQ(at(frame, 36), 0xbeU);
  EXPECT_EQ(at(frame, 37), 0xe0U);
  EXPECT_EQ(at(frame, 39), 10U);
  EXPECT_EQ(at(frame, 40), 0U);  // No checksum.
  EXPECT_EQ(at(frame, 42), 0xaaU);
  const auto parsed = parse_udp_frame(frame);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->ip_checksum_right);
  EXPECT_EQ(parsed->from, (FrameAddress{0x0200'0000'0101, 0x0a000101, 4000}));
  EXPECT_EQ(parsed->to.port, wire::kSwitchmlPort);
  EXPECT_EQ(parsed->payload.size(), 2U);
}

TEST(UdpFrame, RefusesPacketsThatAreNotUdpFrames) {
  const std::vector<std::byte> payload(8);
  EXPECT_TRUE(parse_udp_frame(udp_frame({}, {}, payload)).has_value());
  auto frame = udp_frame({}, {}, payload);
  frame[14] = std::byte{0x46};  // Options.
  EXPECT_FALSE(parse_udp_frame(frame).has_value());
  frame = udp_frame({}, {}, payload);
  frame.pop_back();
  EXPECT_FALSE(parse_udp_frame(frame).has_value());
}

}  // namespace
}  // namespace tributary::tofino
