// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gtest/gtest.h>

namespace tributary {
namespace {

TEST(Time, ByteTimesOfEveryEthernetRateAreWholeTicks) {
  // 8 bits at r Gbit/s take 8000 / r ps; a tick is 10 ps.
  for (const int64_t gigabits : {10, 25, 40, 50, 100, 200, 400, 800}) {
    EXPECT_EQ(8000 % gigabits, 0) << gigabits;
    EXPECT_EQ(8000 / gigabits % kPicosecondsPerTick, 0) << gigabits;
  }
}

TEST(Time, UnitsAreExactMultiples) {
  EXPECT_EQ(nanoseconds(1), picoseconds(1000));
  EXPECT_EQ(microseconds(3), nanoseconds(3000));
  EXPECT_EQ(seconds(1), milliseconds(1000));
  EXPECT_EQ(in_nanoseconds(milliseconds(2)), 2'000'000);
  EXPECT_DOUBLE_EQ(in_seconds(milliseconds(1500)), 1.5);
  EXPECT_EQ(from_seconds(0.25), milliseconds(250));
}

TEST(Time, DifferenceOfInstantsIsADuration) {
  const Instant start(seconds(5));
  EXPECT_EQ((start + milliseconds(3)) - start, milliseconds(3));
  EXPECT_LT(start - nanoseconds(1), start);
  EXPECT_LT(start + seconds(60LL * 60 * 24 * 365 * 2), Instant::never());  // Two years fit.
}

}  // namespace
}  // namespace tributary
