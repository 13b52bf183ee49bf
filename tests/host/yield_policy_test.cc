// SPDX-License-Identifier: Apache-2.0
// Method: waits by hand. The lengths are those of links that the race shapes, and of fast ones.
#include "host/yield_policy.h"

#include <gtest/gtest.h>

namespace tributary::host {
namespace {

constexpr Duration kShort = YieldPolicy::kShortWait - nanoseconds(1);
constexpr Duration kLong = YieldPolicy::kShortWait;

/// Yields as the rule says, at most `yields` times, until a packet comes after `waited`.
/// @return how often it yielded.
uint32_t wait(YieldPolicy& rule, Duration waited, uint32_t yields) {
  uint32_t count = 0;
  for (; count < yields && rule.pays(); count++) rule.on_yield();
  rule.on_packet(waited);
  return count;
}

TEST(YieldPolicy, SleepsUntilAWaitWasShort) {
  YieldPolicy rule;
  EXPECT_FALSE(rule.pays());
  rule.on_packet(kShort);
  EXPECT_TRUE(rule.pays());
  rule.on_packet(kLong);
  EXPECT_FALSE(rule.pays());
}

TEST(YieldPolicy, SleepsOnALinkWhereMostWaitsAreLong) {
  YieldPolicy rule;
  // Pairs of trains: a short wait and a long one, in turn.
  for (int i = 0; i < 100; i++) {
    rule.on_packet(kLong);
    EXPECT_FALSE(rule.pays());
    rule.on_packet(kShort);
    EXPECT_FALSE(rule.pays()) << i;
  }
}

TEST(YieldPolicy, YieldsWhileMostWaitsAreShort) {
  YieldPolicy rule;
  for (uint32_t i = 0; i < 100; i++) rule.on_packet(kShort);
  for (int32_t i = 0; i < YieldPolicy::kScoreMax; i++) {
    EXPECT_TRUE(rule.pays()) << i;
    rule.on_packet(kLong);
  }
  EXPECT_FALSE(rule.pays()) << "as many long waits in a row";
}

TEST(YieldPolicy, SleepsAfterTheYieldsOfOneWait) {
  YieldPolicy rule;
  rule.on_packet(kShort);
  for (uint32_t i = 0; i < YieldPolicy::kYieldsMax; i++) {
    EXPECT_TRUE(rule.pays());
    rule.on_yield();
  }
  EXPECT_FALSE(rule.pays());
}

TEST(YieldPolicy, WaitsInVainAreRareEvenIfTheyAreShort) {
  YieldPolicy rule;
  // Waits of, say, 200 us: short, but longer than all yields.
  uint32_t yields = 0;
  constexpr uint32_t kWaits = 1000;
  for (uint32_t i = 0; i < kWaits; i++) yields += wait(rule, kShort, YieldPolicy::kYieldsMax);
  EXPECT_LE(yields, kWaits / YieldPolicy::kScoreMax * YieldPolicy::kYieldsMax);
  EXPECT_GT(yields, 0U);
}

TEST(YieldPolicy, AYieldThatFindsAPacketKeepsYielding) {
  YieldPolicy rule;
  rule.on_packet(kShort);
  for (uint32_t i = 0; i < 100; i++) EXPECT_EQ(wait(rule, kShort, 3), 3U);
}

}  // namespace
}  // namespace tributary::host
