// SPDX-License-Identifier: Apache-2.0
// SwitchML's packets byte by byte, then what is not one, then there and back.
#include "tofino/switchml_wire.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::tofino {
namespace {

uint32_t at(const std::vector<std::byte>& bytes, size_t offset) {
  return std::to_integer<uint32_t>(bytes.at(offset));
}

TEST(SwitchmlWire, EveryByteOfAMessage) {
  SwitchmlMessage message{.job_number = 0xab,
                          .packet_id = 0x01020304,
                          .set = true,
                          .slot = 0x1234,
                          .exponent0 = -2,
                          .exponent1 = 5};
  message.elements.assign(64, 0);
  message.elements[0] = 0x11223344;
  message.elements[63] = -1;
  const auto bytes = switchml_payload(message);
  ASSERT_EQ(bytes.size(), 10U + 256U);
  EXPECT_EQ(at(bytes, 0), 0x11U);  // Type 1, unused 0, size 1.
  EXPECT_EQ(at(bytes, 1), 0xabU);
  EXPECT_EQ(at(bytes, 2), 0x04U);  // As a little-endian client stores it.
  EXPECT_EQ(at(bytes, 3), 0x03U);
  EXPECT_EQ(at(bytes, 4), 0x02U);
  EXPECT_EQ(at(bytes, 5), 0x01U);
  EXPECT_EQ(at(bytes, 6), 0x92U);  // Set in bit 15, slot 0x1234 below.
  EXPECT_EQ(at(bytes, 7), 0x34U);
  EXPECT_EQ(at(bytes, 8), 0xfeU);
  EXPECT_EQ(at(bytes, 9), 0x05U);
  EXPECT_EQ(at(bytes, 10), 0x11U);
  EXPECT_EQ(at(bytes, 13), 0x44U);
  EXPECT_EQ(at(bytes, 265), 0xffU);
  message.elements.resize(256);
  const auto large = switchml_payload(message);
  EXPECT_EQ(large.size(), 10U + 1024U);
  EXPECT_EQ(at(large, 0), 0x13U);  // Size 3.
}

TEST(SwitchmlWire, SizesAndPorts) {
  EXPECT_EQ(switchml_size_code(64), 1U);
  EXPECT_EQ(switchml_size_code(256), 3U);
  EXPECT_FALSE(switchml_size_code(100).has_value());
  EXPECT_EQ(switchml_elements(3), 256U);
  EXPECT_FALSE(switchml_elements(4).has_value());
  EXPECT_EQ(kSwitchmlPort, 48864);
  EXPECT_EQ(0xbeef & kSwitchmlPortMask, kSwitchmlPort);
}

TEST(SwitchmlWire, EveryByteOfAFrame) {
  const std::vector<std::byte> payload{std::byte{0xaa}, std::byte{0xbb}};
  const auto frame = udp_frame({0x0200'0000'0101, 0x0a000101, 4000},
                               {0x0200'0000'0001, 0x0a0000fe, kSwitchmlPort}, payload);
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
  EXPECT_EQ(parsed->to.port, kSwitchmlPort);
  EXPECT_EQ(parsed->payload.size(), 2U);
}

TEST(SwitchmlWire, WhatIsNotOne) {
  SwitchmlMessage message;
  message.elements.assign(64, 7);
  auto bytes = switchml_payload(message);
  EXPECT_TRUE(parse_switchml(bytes).has_value());
  bytes.pop_back();
  EXPECT_FALSE(parse_switchml(bytes).has_value());
  EXPECT_FALSE(parse_switchml({}).has_value());
  bytes = switchml_payload(message);
  bytes[0] = std::byte{0x21};
  EXPECT_FALSE(parse_switchml(bytes).has_value());
  bytes[0] = std::byte{0x17};
  EXPECT_FALSE(parse_switchml(bytes).has_value());
  auto frame = udp_frame({}, {}, bytes);
  frame[14] = std::byte{0x46};
  EXPECT_FALSE(parse_udp_frame(frame).has_value());
  frame = udp_frame({}, {}, bytes);
  frame.pop_back();
  EXPECT_FALSE(parse_udp_frame(frame).has_value());
}

TEST(SwitchmlWire, ThereAndBack) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t round = 0; round < 200; round++) {
    SwitchmlMessage message{.job_number = static_cast<uint8_t>(prng.any_u32()),
                            .packet_id = prng.any_u32(),
                            .set = prng.chance(0.5),
                            .slot = static_cast<uint16_t>(prng.below(kSwitchmlSlotMax + 1)),
                            .exponent0 = static_cast<int8_t>(prng.any_u32()),
                            .exponent1 = static_cast<int8_t>(prng.any_u32())};
    message.elements.resize(32U << prng.below(4));
    for (int32_t& element : message.elements) element = prng.any_i32();
    EXPECT_EQ(parse_switchml(switchml_payload(message)), message);
  }
}

}  // namespace
}  // namespace tributary::tofino
