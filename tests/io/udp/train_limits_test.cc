// SPDX-License-Identifier: Apache-2.0
// Method: limits by hand in virtual time, then more destinations than places.
#include "io/udp/train_limits.h"

#include <gtest/gtest.h>

namespace tributary::io {
namespace {

constexpr Instant kStart{seconds(1000)};
const Endpoint kSmall = Endpoint::ipv4(0x0a000001, 4000);
const Endpoint kOther = Endpoint::ipv4(0x0a000002, 4000);

TEST(TrainLimits, LimitsOneDestinationOnAnyPort) {
  TrainLimits limits;
  EXPECT_TRUE(limits.empty());
  EXPECT_EQ(limits.of(kSmall, kStart), UINT32_MAX);
  limits.lower(kSmall, 1471, kStart);
  EXPECT_FALSE(limits.empty());
  EXPECT_EQ(limits.of(kSmall, kStart), 1471U);
  EXPECT_EQ(limits.of(Endpoint::ipv4(0x0a000001, 5000), kStart), 1471U);
  EXPECT_EQ(limits.of(kOther, kStart), UINT32_MAX);
}

TEST(TrainLimits, OnlyLowersUntilTheLimitExpires) {
  TrainLimits limits;
  limits.lower(kSmall, 1000, kStart);
  limits.lower(kSmall, 1400, kStart + seconds(1));
  const Instant end = kStart + seconds(1) + TrainLimits::kLifetime;
  EXPECT_EQ(limits.of(kSmall, end - nanoseconds(1)), 1000U);
  EXPECT_EQ(limits.of(kSmall, end), UINT32_MAX);
  limits.lower(kSmall, 1400, end);
  EXPECT_EQ(limits.of(kSmall, end), 1400U);
}

TEST(TrainLimits, NewDestinationsReplaceOldOnesInABoundedTable) {
  TrainLimits limits;
  for (uint32_t i = 0; i < 10 * TrainLimits::kPlaces; i++) {
    const Endpoint destination = Endpoint::ipv4(0x0a000000 + i, 4000);
    limits.lower(destination, i, kStart);
    EXPECT_EQ(limits.of(destination, kStart), i);
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < 10 * TrainLimits::kPlaces; i++) {
    const uint32_t limit = limits.of(Endpoint::ipv4(0x0a000000 + i, 4000), kStart);
    if (limit == UINT32_MAX) continue;
    EXPECT_EQ(limit, i);
    kept++;
  }
  EXPECT_LE(kept, TrainLimits::kPlaces);
  EXPECT_GT(kept, TrainLimits::kPlaces / 2);  // The hash spreads consecutive addresses.
}

}  // namespace
}  // namespace tributary::io
