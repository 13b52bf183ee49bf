// SPDX-License-Identifier: Apache-2.0
// Method: times and numbers by hand, then configurations that the chip cannot do.
#include "tofino/pipeline/packet_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/byte_order.h"

namespace tributary::tofino {
namespace {

using ::testing::HasSubstr;

TEST(PacketGenerators, SendsSweepsOfBatchesAtThePortsRate) {
  const std::array<std::byte, 2> bytes{std::byte{0xab}, std::byte{0xcd}};
  PacketGenerators generators;
  EXPECT_EQ(generators.next_at(), Instant::never());
  ASSERT_TRUE(generators
                  .set({.pipe = 1,
                        .application = 5,
                        .first_at = Instant(nanoseconds(100)),
                        .period = nanoseconds(1'000),
                        .batches = 2,
                        .packets = 3,
                        .packet = {bytes, 70}},
                       2)
                  .has_value());
  // 6 + 70 + 24 bytes at 80 ps.
  const Duration each = nanoseconds(8);
  for (uint32_t i = 0; i < 8; i++) {
    const Instant sweep = Instant(nanoseconds(i < 6 ? 100 : 1'100));
    EXPECT_EQ(generators.next_at(), sweep + each * (i % 6 + 1)) << i;
    const auto packet = generators.take();
    EXPECT_EQ(packet.port, 128U + 68);
    EXPECT_EQ(packet.view.size_bytes, 76U);
    ASSERT_EQ(packet.view.stored.size(), 8U);
    const std::byte* head = packet.view.stored.data();
    EXPECT_EQ(std::to_integer<uint32_t>(head[0]), (1U << 3 | 5));
    EXPECT_EQ(load_be<uint16_t>(head + 2), i % 6 / 3);
    EXPECT_EQ(load_be<uint16_t>(head + 4), i % 3);
    EXPECT_EQ(head[7], std::byte{0xcd});
  }
  generators.stop(1, 5);
  EXPECT_EQ(generators.next_at(), Instant::never());
}

TEST(PacketGenerators, LowerApplicationSendsFirstAtEqualTimes) {
  PacketGenerators generators;
  for (const uint32_t application : {3U, 1U}) {
    ASSERT_TRUE(
        generators
            .set({.application = application, .period = nanoseconds(100), .packet = {{}, 70}}, 1)
            .has_value());
  }
  EXPECT_EQ(std::to_integer<uint32_t>(generators.take().view.stored[0]), 1U);
  EXPECT_EQ(std::to_integer<uint32_t>(generators.take().view.stored[0]), 3U);
}

TEST(PacketGenerators, RefusesConfigurationsBeyondTheChip) {
  PacketGenerators generators;
  const auto refusal = [&](const GeneratorConfig& config) {
    const auto good = generators.set(config, 2);
    return good ? std::string() : good.error().text;
  };
  const GeneratorConfig right{.period = microseconds(1), .packet = {{}, 70}};
  GeneratorConfig wrong = right;
  wrong.pipe = 2;
  EXPECT_THAT(refusal(wrong), HasSubstr("allowed pipes: 0 to 1"));
  wrong = right;
  wrong.application = 8;
  EXPECT_THAT(refusal(wrong), HasSubstr("allowed applications: 0 to 7"));
  wrong = right;
  wrong.batches = 0;
  EXPECT_THAT(refusal(wrong), HasSubstr("batches=0; allowed: 1 to 65536"));
  wrong = right;
  wrong.packets = 126;  // 125 packets of 8 ns take 1 us.
  EXPECT_THAT(refusal(wrong), HasSubstr("period 1000 ns; its 126 packets take 1008 ns"));
  std::vector<std::byte> long_packet(10'000);
  GeneratorConfig large{.period = microseconds(10), .packet = {long_packet, 10'000}};
  EXPECT_EQ(refusal(large), "");
  EXPECT_EQ(refusal(large), "");  // It replaces itself.
  large.application = 1;
  EXPECT_THAT(refusal(large),
              HasSubstr("packets of 20000 bytes in the pipe's buffer; it has 16384"));
  large.pipe = 1;
  EXPECT_EQ(refusal(large), "");  // Another pipe has its own buffer.
}

}  // namespace
}  // namespace tributary::tofino
