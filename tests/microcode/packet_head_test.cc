// SPDX-License-Identifier: Apache-2.0
// Method: views at hand-worked offsets, then each kind of offset at which the header does not fit.
#include "microcode/packet_head.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace tributary::microcode {
namespace {

struct Small {
  static constexpr uint32_t kBytes = 4;
  using High = wire::Field<kBytes, 0, 16>;
  using Low = wire::Field<kBytes, 16, 16>;
};

TEST(PacketHead, ReturnsAViewOnlyIfAllItsBytesExist) {
  std::array<std::byte, 12> bytes{};
  for (uint32_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<std::byte>(i + 1);
  const PacketHead head(bytes);
  EXPECT_EQ(head.size(), 12U);
  ASSERT_TRUE(head.view<Small>(8).has_value());
  EXPECT_EQ(head.view<Small>(8)->get<Small::High>(), 0x090aU);
  EXPECT_EQ(head.view<Small>(8)->get<Small::Low>(), 0x0b0cU);
  EXPECT_FALSE(head.view<Small>(9).has_value());
  EXPECT_FALSE(head.view<Small>(12).has_value());
  EXPECT_FALSE(head.view<Small>(UINT32_MAX).has_value());  // The sum does not wrap.
  EXPECT_FALSE(PacketHead({}).view<Small>(0).has_value());
}

TEST(PacketHeadDeathTest, ReadsEndWithTheHead) {
  const std::array<std::byte, 12> bytes{};
  const PacketHead head(bytes);
  EXPECT_EQ(head.read(4, 8).size(), 8U);
  EXPECT_EQ(head.read(12, 0).size(), 0U);
  EXPECT_DEATH(static_cast<void>(head.read(5, 8)),
               "packet_head_test.cc:.*reads bytes within the head only");
  EXPECT_DEATH(static_cast<void>(head.read(UINT32_MAX, 8)), "within the head only");
}

}  // namespace
}  // namespace tributary::microcode
