// SPDX-License-Identifier: Apache-2.0
// Method: a block's life by hand; then contributions in random order against sets and sums.
#include "apps/trio_ml/records.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

constexpr Instant kNow{milliseconds(5)};

BlockRecord block_of(uint32_t sources) {
  BlockRecord block;
  block.phase = BlockPhase::kAggregating;
  block.incarnation = 3;
  block.expected = first_sources(sources);
  return block;
}

TEST(SourceMask, MaskHasOneBitPerSource) {
  SourceMask mask{};
  include(mask, 0);
  include(mask, 63);
  include(mask, 64);
  include(mask, 255);
  EXPECT_EQ(mask, (SourceMask{uint64_t{1} << 63 | 1, 1, 0, uint64_t{1} << 63}));
  EXPECT_EQ(count(mask), 4U);
  EXPECT_TRUE(contains(mask, 64));
  exclude(mask, 64);
  EXPECT_FALSE(contains(mask, 64));
  EXPECT_EQ(count(mask), 3U);
}

TEST(SourceMask, MasksTheFirstSources) {
  EXPECT_EQ(first_sources(1), (SourceMask{1, 0, 0, 0}));
  EXPECT_EQ(first_sources(65), (SourceMask{~uint64_t{0}, 1, 0, 0}));
  EXPECT_EQ(count(first_sources(256)), 256U);
  EXPECT_EQ(first_of({0, 0b1100, 0, 0}), 66U);
  EXPECT_EQ(first_of({}), wire::kSourcesMax);
}

TEST(BlockRecord, LastContributionCompletesTheSum) {
  BlockRecord block = block_of(2);
  EXPECT_EQ(admit(block, 3, 0, kNow), Admission::kAdmitted);
  EXPECT_EQ(block.referenced_at, kNow);
  EXPECT_FALSE(settle(block, {}));
  EXPECT_EQ(admit(block, 3, 1, kNow), Admission::kAdmitted);
  EXPECT_TRUE(settle(block, {}));
  EXPECT_EQ(block.src_cnt, 2);
  EXPECT_EQ(admit(block, 3, 0, kNow), Admission::kDuplicate);
  EXPECT_EQ(admit(block, 3, 7, kNow), Admission::kClosed);
}

TEST(BlockRecord, AdmitsEachSourceOnce) {
  BlockRecord block = block_of(2);
  EXPECT_EQ(admit(block, 3, 0, kNow), Admission::kAdmitted);
  EXPECT_EQ(admit(block, 3, 0, kNow + seconds(1)), Admission::kDuplicate);
  EXPECT_EQ(block.referenced_at, kNow);  // A duplicate is not a reference.
  EXPECT_EQ(block.admitted, 1);
}

TEST(BlockRecord, RefusesAnotherIncarnation) {
  BlockRecord block = block_of(2);
  EXPECT_EQ(admit(block, 2, 0, kNow), Admission::kClosed);
  EXPECT_EQ(block.admitted, 0);
}

TEST(BlockRecord, SumIsFinalAfterAllAdmittedHaveAdded) {
  BlockRecord block = block_of(2);
  ASSERT_EQ(admit(block, 3, 0, kNow), Admission::kAdmitted);
  ASSERT_EQ(admit(block, 3, 1, kNow), Admission::kAdmitted);
  EXPECT_FALSE(settle(block, {}));  // Complete by mask, but one payload is still on its way.
  EXPECT_TRUE(settle(block, {}));
}

TEST(BlockRecord, LastAdmittedContributionFinishesAClosedBlock) {
  BlockRecord block = block_of(3);
  ASSERT_EQ(admit(block, 3, 0, kNow), Admission::kAdmitted);
  EXPECT_FALSE(close(block));  // Source 0 is still adding.
  EXPECT_EQ(admit(block, 3, 1, kNow), Admission::kClosed);
  EXPECT_TRUE(settle(block, {}));

  BlockRecord idle = block_of(3);
  ASSERT_EQ(admit(idle, 3, 0, kNow), Admission::kAdmitted);
  EXPECT_FALSE(settle(idle, {}));
  EXPECT_TRUE(close(idle));
}

TEST(BlockRecord, MergesTheTermsOfContributions) {
  BlockRecord block = block_of(2);
  ASSERT_EQ(admit(block, 3, 0, kNow), Admission::kAdmitted);
  EXPECT_FALSE(settle(block, {.src_cnt = 4, .exponent = -7, .flags = 2, .final = true}));
  ASSERT_EQ(admit(block, 3, 1, kNow), Admission::kAdmitted);
  EXPECT_TRUE(settle(block, {.src_cnt = 3, .exponent = 5, .flags = 4, .degraded = true}));
  EXPECT_EQ(block.src_cnt, 7);
  EXPECT_EQ(block.exponent, 5);
  EXPECT_EQ(block.flags, 6);
  EXPECT_TRUE(block.final);
  EXPECT_TRUE(block.degraded);
}

// Threads are admitted, add and settle in any order. Sources repeat themselves, and a timer may
// close.
TEST(BlockRecord, ExactlyOneCallerLearnsThatTheSumIsFinal) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 2000; round++) {
    const uint32_t sources = 1 + prng.below(256);
    const bool may_close = prng.chance(0.5);
    BlockRecord block = block_of(sources);
    std::set<uint32_t> admitted;
    uint32_t adding = 0;
    uint32_t told = 0;
    bool closed = false;
    for (uint32_t step = 0; step < 2000 && told == 0; step++) {
      if (adding > 0 && prng.chance(0.5)) {
        adding--;
        told += settle(block, {}) ? 1 : 0;
      } else if (may_close && !closed && !admitted.empty() && prng.chance(0.01)) {
        closed = true;
        told += close(block) ? 1 : 0;
      } else {
        const uint32_t source = prng.below(sources);
        const Admission admission = admit(block, 3, source, kNow);
        if (admitted.contains(source)) {
          ASSERT_EQ(admission, Admission::kDuplicate);
        } else if (closed) {
          ASSERT_EQ(admission, Admission::kClosed);
        } else {
          ASSERT_EQ(admission, Admission::kAdmitted);
          admitted.insert(source);
          adding++;
        }
      }
    }
    for (; adding > 0; adding--) told += settle(block, {}) ? 1 : 0;
    if (closed || admitted.size() == sources) {
      ASSERT_EQ(told, 1U);
      ASSERT_EQ(count(block.rcvd_mask), admitted.size());
      ASSERT_EQ(block.src_cnt, admitted.size());
    } else {
      ASSERT_EQ(told, 0U);
    }
  }
}

}  // namespace
}  // namespace tributary::trio_ml
