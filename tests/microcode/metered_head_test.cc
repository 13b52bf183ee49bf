// SPDX-License-Identifier: Apache-2.0
// Method: reads the same bytes as packet_head_test.cc and counts by hand.
#include "microcode/metered_head.h"

#include <gtest/gtest.h>

#include <array>

#include "wire/headers.h"

namespace tributary::microcode {
namespace {

using Udp = wire::UdpHeader;
constexpr Instruction kParse{"parse", {.lmem_reads = 2}};

class MeteredHeadTest : public ::testing::Test {
 protected:
  MeteredHeadTest() {
    for (uint32_t i = 0; i < bytes_.size(); i++) bytes_[i] = static_cast<std::byte>(i);
    meter_.begin(kParse, 1, std::source_location::current());
  }
  [[nodiscard]] MeteredHead head(AccessMeter* meter) const {
    return {bytes_, kHeadroomBytes, meter, std::source_location::current()};
  }
  /// Ends the instruction. @return its use.
  [[nodiscard]] AccessCount used() {
    meter_.pause();
    return meter_.instructions().at(0).most;
  }

  std::array<std::byte, 24> bytes_{};
  AccessMeter meter_;
};

TEST_F(MeteredHeadTest, FieldsAreReadAndCounted) {
  const auto udp = head(&meter_).view<Udp>(16);
  ASSERT_TRUE(udp.has_value());
  EXPECT_EQ(udp->get<Udp::DestinationPort>(), 0x1213U);
  EXPECT_EQ(udp->get<Udp::Length>(), 0x1415U);
  EXPECT_EQ(used(), (AccessCount{.head_bytes = 4, .lmem_reads = 1}));
}

TEST_F(MeteredHeadTest, CopiesAndSpansAreCounted) {
  std::array<uint8_t, 4> to{};
  copy_bytes(*head(&meter_).view<Udp>(0), 2, to);
  EXPECT_EQ(to, (std::array<uint8_t, 4>{2, 3, 4, 5}));
  const auto span = head(&meter_).read(12, 6);
  EXPECT_EQ(span.size(), 6U);
  EXPECT_EQ(span[0], std::byte{12});
  EXPECT_EQ(used(), (AccessCount{.head_bytes = 10, .lmem_reads = 2}));
}

TEST_F(MeteredHeadTest, ViewsPastTheEndAreRefused) {
  EXPECT_FALSE(head(&meter_).view<Udp>(17).has_value());
  EXPECT_EQ(used(), AccessCount{});
}

TEST_F(MeteredHeadTest, ReadsEndWithTheHead) {
  EXPECT_DEATH(static_cast<void>(head(&meter_).read(20, 5)),
               "metered_head_test.cc:.*reads bytes within the head only");
  EXPECT_DEATH(static_cast<void>(head(nullptr).read(UINT32_MAX, 5)), "within the head only");
}

TEST_F(MeteredHeadTest, WithoutAMeterNothingIsCounted) {
  EXPECT_EQ(head(nullptr).view<Udp>(0)->get<Udp::SourcePort>(), 0x0001U);
  EXPECT_EQ(head(nullptr).read(0, 24).size(), 24U);
  EXPECT_EQ(used(), AccessCount{});
}

}  // namespace
}  // namespace tributary::microcode
