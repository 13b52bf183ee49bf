// SPDX-License-Identifier: Apache-2.0
// Method: the header's bytes by hand, each refusal, and random bytes.
#include "wire/vxlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/prng.h"
#include "tests/support/seed.h"

namespace tributary::wire {
namespace {

std::vector<std::byte> datagram_of(uint32_t network, uint32_t frame_bytes) {
  const auto header = vxlan_header(network);
  std::vector<std::byte> datagram(header.begin(), header.end());
  datagram.resize(header.size() + frame_bytes, std::byte{7});
  return datagram;
}

TEST(Vxlan, HeaderBytes) {
  const auto header = vxlan_header(0x123456);
  const std::array<uint8_t, 8> expected{0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0};
  for (uint32_t i = 0; i < 8; i++) EXPECT_EQ(std::to_integer<uint8_t>(header[i]), expected[i]) << i;
}

TEST(Vxlan, FrameOfItsNetworkOnly) {
  const auto datagram = datagram_of(5, 60);
  const auto frame = vxlan_frame(datagram, 5);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->data(), datagram.data() + 8);
  EXPECT_EQ(frame->size(), 60U);
  EXPECT_FALSE(vxlan_frame(datagram, 6));
  EXPECT_FALSE(vxlan_frame(datagram, 5 << 8));
  EXPECT_EQ(vxlan_network(datagram), 5U);
}

TEST(Vxlan, NeedsItsFlagAndAnEthernetHeader) {
  auto datagram = datagram_of(5, 14);
  EXPECT_TRUE(vxlan_frame(datagram, 5));
  datagram[0] = std::byte{0xf7};  // Everything but the flag.
  EXPECT_FALSE(vxlan_frame(datagram, 5));
  datagram[0] = std::byte{0xff};  // Reserved bits are ignored.
  datagram[3] = datagram[7] = std::byte{0xff};
  EXPECT_TRUE(vxlan_frame(datagram, 5));
  EXPECT_FALSE(vxlan_frame(datagram_of(5, 13), 5));
  EXPECT_FALSE(vxlan_frame({}, 5));
  EXPECT_FALSE(vxlan_network(datagram_of(5, 13)));
}

TEST(Vxlan, RandomBytes) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 20'000; step++) {
    std::vector<std::byte> bytes(prng.below(64));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(256));
    if (prng.chance(0.5)) {  // A good header of some network.
      const auto header = vxlan_header(prng.below(4));
      std::copy_n(header.begin(), std::min(header.size(), bytes.size()), bytes.begin());
    }
    const uint32_t network = prng.below(4);
    const auto frame = vxlan_frame(bytes, network);
    const bool fits = bytes.size() >= 22 && (bytes[0] & std::byte{8}) != std::byte{0} &&
                      bytes[4] == std::byte{0} && bytes[5] == std::byte{0} &&
                      bytes[6] == static_cast<std::byte>(network);
    ASSERT_EQ(frame.has_value(), fits);
    if (!fits) continue;
    ASSERT_EQ(frame->size(), bytes.size() - 8);
  }
}

}  // namespace
}  // namespace tributary::wire
