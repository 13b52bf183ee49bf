// SPDX-License-Identifier: Apache-2.0
#include "io/idle_nap.h"

#include <gtest/gtest.h>

namespace tributary::io {
namespace {

TEST(IdleNap, IsAShareOfTheSilenceWithinLimits) {
  EXPECT_EQ(idle_nap(Duration()), Duration());
  EXPECT_EQ(idle_nap(microseconds(319)), Duration());  // 319 / 16 < 20.
  EXPECT_EQ(idle_nap(microseconds(320)), microseconds(20));
  EXPECT_EQ(idle_nap(milliseconds(8)), microseconds(500));
  EXPECT_EQ(idle_nap(seconds(1)), milliseconds(1));
}

}  // namespace
}  // namespace tributary::io
