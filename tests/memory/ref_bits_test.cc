// SPDX-License-Identifier: Apache-2.0
// Method: the life of one record by hand, ranges that begin and end inside words, the actions that
// a callback may take, then a random walk against two std::vector<bool>.
#include "memory/ref_bits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint32_t> scan(RefBits& bits, uint32_t begin, uint32_t end) {
  std::vector<uint32_t> idle;
  bits.scan_idle(begin, end, [&](uint32_t slot) { idle.push_back(slot); });
  return idle;
}

TEST(RefBits, SecondScanAfterTheLastTouchFindsTheRecordIdle) {
  RefBits bits(100);
  bits.mark_live(70);
  EXPECT_TRUE(bits.is_live(70) && bits.is_referenced(70));
  EXPECT_THAT(scan(bits, 0, 100), IsEmpty());  // Created since the last scan: only cleared.
  EXPECT_FALSE(bits.is_referenced(70));
  EXPECT_THAT(scan(bits, 0, 100), ElementsAre(70));
  EXPECT_THAT(scan(bits, 0, 100), ElementsAre(70));  // Still idle, reported again.
  bits.touch(70);
  EXPECT_THAT(scan(bits, 0, 100), IsEmpty());
  EXPECT_THAT(scan(bits, 0, 100), ElementsAre(70));
  bits.clear_live(70);
  EXPECT_THAT(scan(bits, 0, 100), IsEmpty());
}

TEST(RefBits, TouchOfADeadSlotHasNoEffect) {
  RefBits bits(10);
  bits.touch(3);
  EXPECT_FALSE(bits.is_referenced(3));
  bits.mark_live(3);
  bits.clear_live(3);
  EXPECT_FALSE(bits.is_referenced(3));
}

TEST(RefBits, TestAndClearReturnsTrueOnce) {
  RefBits bits(10);
  bits.mark_live(9);
  EXPECT_TRUE(bits.test_and_clear(9));
  EXPECT_FALSE(bits.test_and_clear(9));
  EXPECT_TRUE(bits.is_live(9));
}

TEST(RefBits, EveryRangeTouchesItsSlotsOnly) {
  constexpr uint32_t kCapacity = 3 * 64 + 5;
  for (uint32_t begin = 0; begin <= kCapacity; begin++) {
    for (uint32_t end = begin; end <= kCapacity; end++) {
      RefBits bits(kCapacity);
      for (uint32_t slot = 0; slot < kCapacity; slot++) bits.mark_live(slot);
      ASSERT_THAT(scan(bits, begin, end), IsEmpty());
      for (const uint32_t slot : {uint32_t{0}, begin - 1, begin, end - 1, end, kCapacity - 1}) {
        if (slot >= kCapacity) continue;  // begin - 1 wraps for 0.
        ASSERT_EQ(bits.is_referenced(slot), slot < begin || slot >= end)
            << begin << ".." << end << " slot " << slot;
      }
    }
  }
}

TEST(RefBits, CapacityZeroIsAllowed) {
  RefBits bits(0);
  EXPECT_THAT(scan(bits, 0, 0), IsEmpty());
}

TEST(RefBits, CallbackMayEraseAndRecreate) {
  RefBits bits(64);
  for (const uint32_t slot : {1, 2, 3, 4}) bits.mark_live(slot);
  EXPECT_THAT(scan(bits, 0, 64), IsEmpty());
  std::vector<uint32_t> idle;
  bits.scan_idle(0, 64, [&](uint32_t slot) {
    idle.push_back(slot);
    if (slot == 1) bits.clear_live(1);
    if (slot == 2) bits.clear_live(2), bits.mark_live(2);  // A new record in the same slot.
    if (slot == 2) bits.clear_live(3);                     // Freed before its turn.
  });
  EXPECT_THAT(idle, ElementsAre(1, 2, 4));
  EXPECT_FALSE(bits.is_live(1));
  EXPECT_TRUE(bits.is_referenced(2));  // The new record has a whole period.
  EXPECT_THAT(scan(bits, 0, 64), ElementsAre(4));
  EXPECT_THAT(scan(bits, 0, 64), ElementsAre(2, 4));
}

TEST(RefBitsDeathTest, RejectsASlotOutsideTheRange) {
  RefBits bits(65);
  EXPECT_DEATH(bits.touch(65), "bug");
  EXPECT_DEATH(bits.mark_live(UINT32_MAX), "bug");
  EXPECT_DEATH(bits.scan_idle(0, 66, [](uint32_t) {}), "bug");
  EXPECT_DEATH(bits.scan_idle(2, 1, [](uint32_t) {}), "bug");
}

TEST(RefBits, RandomWalkMatchesTwoVectorsOfBool) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  const uint32_t capacity = 1 + prng.below(300);
  RefBits bits(capacity);
  std::vector<bool> live(capacity), ref(capacity);
  for (uint32_t step = 0; step < 50'000; step++) {
    const uint32_t slot = prng.below(capacity);
    switch (prng.below(5)) {
      case 0:
        bits.mark_live(slot);
        live[slot] = ref[slot] = true;
        break;
      case 1:
        bits.clear_live(slot);
        live[slot] = ref[slot] = false;
        break;
      case 2:
        bits.touch(slot);
        ref[slot] = ref[slot] || live[slot];
        break;
      case 3:
        ASSERT_EQ(bits.test_and_clear(slot), ref[slot]);
        ref[slot] = false;
        break;
      default: {
        const uint32_t end = slot + prng.below(capacity - slot + 1);
        std::vector<uint32_t> expected;
        for (uint32_t i = slot; i < end; i++) {
          if (live[i] && !ref[i]) expected.push_back(i);
          ref[i] = false;
        }
        ASSERT_EQ(scan(bits, slot, end), expected) << "step " << step;
      }
    }
    ASSERT_EQ(bits.is_live(slot), live[slot]) << "step " << step;
    ASSERT_EQ(bits.is_referenced(slot), ref[slot]) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::memory
