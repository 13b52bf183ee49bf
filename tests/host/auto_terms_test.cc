// SPDX-License-Identifier: Apache-2.0
// Method: the sums are asserted at compile time beside their constants. These tests check the
// bounds, and the kernel's answer for the one path that every machine has.
#include "host/auto_terms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/udp/path_mtu.h"

namespace tributary::host {
namespace {

TEST(AutoTerms, PacketsFitTheirPathAndWindowsTheSocket) {
  for (uint32_t mtu = 0; mtu <= 70'000; mtu += 7) {
    const uint32_t gradients = auto_gradients(mtu, true);
    ASSERT_GE(gradients, 1U);
    ASSERT_LE(gradients, kAutoGradientsMax);
    if (mtu >= 96) {  // One element fits.
      ASSERT_LE(28 + 64 + gradients * 4, mtu);
    }
    for (const uint32_t world : {1U, 2U, 8U, 32U, 256U}) {
      const uint32_t window = auto_window(gradients, world);
      ASSERT_GE(window, kAutoWindowMin);
      ASSERT_LE(window, kAutoWindowMax);
      if (window > kAutoWindowMin) {
        ASSERT_LE(uint64_t{window} * world * (64 + gradients * 4), kAutoJobBytes);
      }
    }
  }
}

TEST(AutoTerms, WindowsFollowTheWeights) {
  for (const uint32_t window : {1U, 16U, 95U, 512U}) {
    EXPECT_EQ(weighted_window(window, 7, 7), window) << "an only aggregator";
    for (uint32_t weight = 1; weight < 100; weight++) {
      const uint32_t own = weighted_window(window, weight, 100);
      ASSERT_LE(own, window);
      ASSERT_GE(own, std::min(window, kAutoWindowMin));
      ASSERT_GE(own, weighted_window(window, weight - 1, 100));
    }
  }
  // Large weights do not overflow.
  EXPECT_EQ(weighted_window(512, 65'535, 64 * uint64_t{65'535}), kAutoWindowMin);
}

TEST(AutoTerms, KernelReportsThePathMtu) {
  // The loopback interface's MTU is 65536 unless an administrator changed it, and never below the
  // least.
  EXPECT_GE(io::path_mtu(Endpoint::ipv4(0x7f000001, 12000)), io::kPathMtuMin);
}

}  // namespace
}  // namespace tributary::host
