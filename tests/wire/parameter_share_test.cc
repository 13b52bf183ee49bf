// SPDX-License-Identifier: Apache-2.0
// Method: shares by hand, then random weights: the shares meet and cover all blocks.
#include "wire/parameter_share.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace tributary::wire {
namespace {

TEST(ParameterShare, BlocksFollowTheWeights) {
  // 10 blocks by 1 : 2 : 1.
  EXPECT_EQ(blocks_of({.before = 0, .own = 1, .all = 4}, 10), (BlockRange{0, 2}));
  EXPECT_EQ(blocks_of({.before = 1, .own = 2, .all = 4}, 10), (BlockRange{2, 7}));
  EXPECT_EQ(blocks_of({.before = 3, .own = 1, .all = 4}, 10), (BlockRange{7, 10}));
}

TEST(ParameterShare, OneAggregatorKeepsAllBlocks) {
  EXPECT_EQ(blocks_of({}, 10), (BlockRange{0, 10}));
}

TEST(ParameterShare, MoreAggregatorsThanBlocks) {
  EXPECT_EQ(blocks_of({.before = 0, .own = 1, .all = 2}, 1).count(), 0U);
  EXPECT_EQ(blocks_of({.before = 1, .own = 1, .all = 2}, 1).count(), 1U);
}

TEST(ParameterShare, ImpossibleWeights) {
  EXPECT_TRUE((ParameterShare{.before = 3, .own = 1, .all = 4}.is_possible()));
  EXPECT_FALSE((ParameterShare{.before = 4, .own = 1, .all = 4}.is_possible()));
  EXPECT_FALSE((ParameterShare{.before = 0, .own = 0, .all = 4}.is_possible()));
  EXPECT_FALSE((ParameterShare{.before = 0, .own = 1, .all = 0}.is_possible()));
  EXPECT_FALSE((ParameterShare{.before = UINT64_MAX, .own = 2, .all = 4}.is_possible()));
}

TEST(ParameterShare, SharesOfAListCoverAllBlocks) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t round = 0; round < 200; round++) {
    std::vector<uint32_t> weights(1 + prng.below(8));
    uint64_t all = 0;
    for (uint32_t& weight : weights) all += weight = 1 + prng.below(1 << 30);
    const uint64_t blocks = prng.any_u32();
    uint64_t before = 0;
    uint64_t end = 0;
    for (const uint32_t weight : weights) {
      const BlockRange range = blocks_of({before, weight, all}, blocks);
      EXPECT_EQ(range.first, end);
      EXPECT_GE(range.end, range.first);
      end = range.end;
      before += weight;
    }
    EXPECT_EQ(end, blocks);
  }
}

}  // namespace
}  // namespace tributary::wire
