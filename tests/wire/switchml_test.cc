// SPDX-License-Identifier: Apache-2.0
// Method: SwitchML's packets byte by byte, then bytes that are not SwitchML, then round trips.
#include "wire/switchml.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::wire {
namespace {

uint32_t at(const std::vector<std::byte>& bytes, size_t offset) {
  return std::to_integer<uint32_t>(bytes.at(offset));
}

TEST(SwitchmlWire, MessageMatchesHandWrittenBytes) {
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

TEST(SwitchmlWire, MapsSizesAndPorts) {
  EXPECT_EQ(switchml_size_code(64), 1U);
  EXPECT_EQ(switchml_size_code(256), 3U);
  EXPECT_FALSE(switchml_size_code(100).has_value());
  EXPECT_EQ(switchml_elements(3), 256U);
  EXPECT_FALSE(switchml_elements(4).has_value());
  EXPECT_EQ(kSwitchmlPort, 48864);
  EXPECT_EQ(0xbeef & kSwitchmlPortMask, kSwitchmlPort);
}

TEST(SwitchmlWire, RefusesPacketsThatAreNotSwitchml) {
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
  EXPECT_FALSE(decode_switchml_head(std::span(bytes).first(9)).has_value());
}

TEST(SwitchmlWire, MessagesSurviveARoundTrip) {
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
    const auto bytes = switchml_payload(message);
    EXPECT_EQ(parse_switchml(bytes), message);
    // The head alone decodes to the same values and encodes to the same bytes.
    const auto head = decode_switchml_head(std::span(bytes).first(SwitchmlHeader::kBytes));
    ASSERT_TRUE(head.has_value());
    EXPECT_EQ(switchml_bytes(head->elements), bytes.size());
    std::vector<std::byte> again(SwitchmlHeader::kBytes);
    encode_switchml_head(*head, again.data());
    EXPECT_TRUE(std::equal(again.begin(), again.end(), bytes.begin()));
  }
}

}  // namespace
}  // namespace tributary::wire
