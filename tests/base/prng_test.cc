// SPDX-License-Identifier: Apache-2.0
#include "base/prng.h"

#include <gtest/gtest.h>

#include <array>

namespace tributary {
namespace {

TEST(Prng, MatchesThePublishedSplitMix64Sequence) {
  Prng prng(1234567);
  EXPECT_EQ(prng.any_u64(), 6457827717110365317ULL);
  EXPECT_EQ(prng.any_u64(), 3203168211198807973ULL);
  EXPECT_EQ(prng.any_u64(), 9817491932198370423ULL);
}

TEST(Prng, BelowCoversItsRangeEvenly) {
  Prng prng(1);
  std::array<uint32_t, 7> seen{};
  for (uint32_t i = 0; i < 70'000; i++) seen.at(prng.below(7))++;
  for (const uint32_t times : seen) EXPECT_NEAR(times, 10'000, 500);
  EXPECT_EQ(prng.below(0), 0U);
}

TEST(Prng, ChanceMatchesItsProbability) {
  Prng prng(2);
  uint32_t hits = 0;
  for (uint32_t i = 0; i < 100'000; i++) hits += prng.chance(0.16) ? 1 : 0;
  EXPECT_NEAR(hits, 16'000, 600);
}

}  // namespace
}  // namespace tributary
