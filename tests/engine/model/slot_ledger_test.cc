// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked reservations, then a random walk against slots in a map.
#include "engine/model/slot_ledger.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

constexpr Duration kWidth = SlotLedger::kSlotWidth;

TEST(SlotLedger, EmptyResourceIsAvailableAtOnce) {
  SlotLedger ledger;
  EXPECT_EQ(ledger.reserve(Instant(nanoseconds(100)), nanoseconds(30)), Instant(nanoseconds(130)));
}

TEST(SlotLedger, FullSlotDefersWorkToTheNextOne) {
  SlotLedger ledger;
  const Instant start{Duration()};
  EXPECT_EQ(ledger.reserve(start, kWidth), start + kWidth);
  // Slot 0 is full, so the work takes 10 ns of slot 1.
  EXPECT_EQ(ledger.reserve(start, nanoseconds(10)), start + kWidth + nanoseconds(10));
  // Two slots of work from slot 0 on: 10 ns of slot 1 are taken, so it ends in slot 3.
  EXPECT_EQ(ledger.reserve(start, kWidth * 2), start + kWidth * 3 + nanoseconds(10));
}

TEST(SlotLedger, UsesTimeBeforeLaterReservations) {
  SlotLedger ledger;
  const Instant start{Duration()};
  // A reservation ten slots ahead does not delay this one.
  (void)ledger.reserve(start + kWidth * 10, kWidth);
  EXPECT_EQ(ledger.reserve(start, nanoseconds(10)), start + nanoseconds(10));
}

TEST(SlotLedger, CountsReservationsBeyondTheRing) {
  SlotLedger ledger;
  const Instant start{Duration()};
  for (uint32_t i = 0; i <= SlotLedger::kSlots; i++) (void)ledger.reserve(start, kWidth);
  EXPECT_GT(ledger.overflow_count(), 0U);
}

TEST(SlotLedger, RandomReservationsMatchModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  SlotLedger ledger;
  std::map<int64_t, int64_t> used;  // Slot to ticks.
  const int64_t width = kWidth.ticks();
  int64_t now = 0;
  for (uint32_t step = 0; step < 20'000; step++) {
    now += prng.below(static_cast<uint32_t>(width / 2));
    const int64_t at = now + prng.below(static_cast<uint32_t>(width * 40));
    const int64_t work = prng.below(static_cast<uint32_t>(width * 2 / 5));  // Load 0.8.
    int64_t left = work;
    int64_t slot = at / width;
    for (;; slot++) {
      // An empty request ends in the first slot with room.
      const int64_t taken = std::min(left, width - used[slot]);
      const bool room = used[slot] < width;
      used[slot] += taken;
      left -= taken;
      if (left == 0 && room) break;
    }
    const int64_t expected = std::max(at + work, slot * width + used[slot]);
    const Instant done =
        ledger.reserve(Instant(Duration::from_ticks(at)), Duration::from_ticks(work));
    ASSERT_EQ(done.since_start().ticks(), expected) << "step " << step;
  }
  EXPECT_EQ(ledger.overflow_count(), 0U);
}

}  // namespace
}  // namespace tributary::engine
