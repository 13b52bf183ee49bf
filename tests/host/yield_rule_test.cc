// SPDX-License-Identifier: Apache-2.0
// Method: waits by hand. The lengths are those of links that the race shapes, and of fast ones.
#include "host/yield_rule.h"

#include <gtest/gtest.h>

namespace tributary::host {
namespace {

constexpr Duration kShort = YieldRule::kShortWait - nanoseconds(1);
constexpr Duration kLong = YieldRule::kShortWait;

/// Yields as the rule says, at most `yields` times, until a packet comes after `waited`.
/// @return how often it yielded.
uint32_t wait(YieldRule& rule, Duration waited, uint32_t yields) {
  uint32_t count = 0;
  for (; count < yields && rule.pays(); count++) rule.on_yield();
  rule.on_packet(waited);
  return count;
}

TEST(YieldRule, SleepsUntilAWaitWasShort) {
  YieldRule rule;
  EXPECT_FALSE(rule.pays());
  rule.on_packet(kShort);
  EXPECT_TRUE(rule.pays());
  rule.on_packet(kLong);
  EXPECT_FALSE(rule.pays());
}

TEST(YieldRule, SleepsOnALinkWhereMostWaitsAreLong) {
  YieldRule rule;
  // Pairs of trains: a short wait and a long one, in turn.
  for (int i = 0; i < 100; i++) {
    rule.on_packet(kLong);
    EXPECT_FALSE(rule.pays());
    rule.on_packet(kShort);
    EXPECT_FALSE(rule.pays()) << i;
  }
}

TEST(YieldRule, YieldsWhileMostWaitsAreShort) {
  YieldRule rule;
  for (uint32_t i = 0; i < 100; i++) rule.on_packet(kShort);
  for (int32_t i = 0; i < YieldRule::kScoreMax; i++) {
    EXPECT_TRUE(rule.pays()) << i;
    rule.on_packet(kLong);
  }
  EXPECT_FALSE(rule.pays()) << "as many long waits in a row";
}

TEST(YieldRule, SleepsAfterTheYieldsOfOneWait) {
  YieldRule rule;
  rule.on_packet(kShort);
  for (uint32_t i = 0; i < YieldRule::kYieldsMax; i++) {
    EXPECT_TRUE(rule.pays());
    rule.on_yield();
  }
  EXPECT_FALSE(rule.pays());
}

TEST(YieldRule, WaitsInVainAreRareEvenIfTheyAreShort) {
  YieldRule rule;
  // Waits of, say, 200 us: short, but longer than all yields.
  uint32_t yields = 0;
  constexpr uint32_t kWaits = 1000;
  for (uint32_t i = 0; i < kWaits; i++) yields += wait(rule, kShort, YieldRule::kYieldsMax);
  EXPECT_LE(yields, kWaits / YieldRule::kScoreMax * YieldRule::kYieldsMax);
  EXPECT_GT(yields, 0U);
}

TEST(YieldRule, AYieldThatFindsAPacketKeepsYielding) {
  YieldRule rule;
  rule.on_packet(kShort);
  for (uint32_t i = 0; i < 100; i++) EXPECT_EQ(wait(rule, kShort, 3), 3U);
}

}  // namespace
}  // namespace tributary::host
