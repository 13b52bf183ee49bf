// SPDX-License-Identifier: Apache-2.0
// Method: rooms of usual paths by hand.
#include "wire/path_room.h"

#include <gtest/gtest.h>

namespace tributary::wire {
namespace {

TEST(PathRoom, LeavesRoomForHeadersAndMask) {
  EXPECT_EQ(gradients_in(1500, true, auth::Mode::kNone), 352U);   // (1500 - 20 - 8 - 64) / 4
  EXPECT_EQ(gradients_in(1500, false, auth::Mode::kNone), 347U);  // (1500 - 40 - 8 - 64) / 4
  EXPECT_EQ(gradients_in(1500, true, auth::Mode::kFull), 346U);   // … - 24
  EXPECT_EQ(gradients_in(9000, true, auth::Mode::kNone), 2227U);
}

TEST(PathRoom, ANarrowPathCarriesOne) {
  for (const uint32_t mtu : {0U, 92U, 95U, 99U}) {
    EXPECT_EQ(gradients_in(mtu, true, auth::Mode::kNone), 1U) << mtu;
  }
  EXPECT_EQ(gradients_in(100, true, auth::Mode::kNone), 2U);
}

}  // namespace
}  // namespace tributary::wire
