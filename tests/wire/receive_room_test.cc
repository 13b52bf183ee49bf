// SPDX-License-Identifier: Apache-2.0
// Method: compile-time assertions beside the function check examples; here are general properties.
#include "wire/receive_room.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::wire {
namespace {

TEST(ReceiveRoom, WindowsOfAllSendersFitUnlessMinimal) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  for (uint32_t step = 0; step < 10'000; step++) {
    const uint32_t room_bytes = 1 + prng.below(64U << 20);
    const uint32_t gradients = 1 + prng.below(4095);
    const uint32_t senders = 1 + prng.below(256);
    const uint32_t window = window_in_room(room_bytes, gradients, senders);
    ASSERT_GE(window, kRoomWindowMin);
    const uint64_t packet_bytes = kUnsealedHeadBytesMax + uint64_t{gradients} * kGradientBytes;
    if (window > kRoomWindowMin) {
      ASSERT_LE(window * senders * packet_bytes, room_bytes) << "step " << step;
    }
    // One more packet for each sender would not fit.
    ASSERT_GT((window + 1) * senders * packet_bytes, room_bytes) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::wire
