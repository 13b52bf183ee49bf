// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked bursts of refusals.
#include "lab/faults/refusals.h"

#include <gtest/gtest.h>

namespace tributary::lab {
namespace {

constexpr Instant at(int64_t ms) { return Instant() + milliseconds(ms); }
const Endpoint kHost = Endpoint::ipv4(0x0a000001, 12000);
const Endpoint kOther = Endpoint::ipv4(0x0a000002, 12000);

TEST(Refusals, OnlyStoppedAggregatorsRefuse) {
  Refusals refusals;
  EXPECT_FALSE(refusals.take(1, kHost, at(0)));
  refusals.begin(1);
  EXPECT_TRUE(refusals.take(1, kHost, at(0)));
  EXPECT_FALSE(refusals.take(2, kHost, at(0)));
  refusals.end(1);
  EXPECT_FALSE(refusals.take(1, kHost, at(0)));
}

// Six at once. The next one costs a second.
TEST(Refusals, EachHostGetsFewOfThem) {
  Refusals refusals;
  refusals.begin(1);
  for (int64_t i = 0; i < Refusals::kBurst; i++) EXPECT_TRUE(refusals.take(1, kHost, at(0)));
  EXPECT_FALSE(refusals.take(1, kHost, at(999)));
  EXPECT_TRUE(refusals.take(1, kOther, at(999)));
  EXPECT_TRUE(refusals.take(1, kHost, at(1000)));
  EXPECT_FALSE(refusals.take(1, kHost, at(1500)));
  EXPECT_TRUE(refusals.take(1, kHost, at(2000)));
}

}  // namespace
}  // namespace tributary::lab
