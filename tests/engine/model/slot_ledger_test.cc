// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked reservations, then a random walk against slots in a map.
#include "engine/model/slot_ledger.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

constexpr Duration kWidth = SlotLedger::kSlotWidth;
constexpr uint32_t kSteps = testing::kIsSanitized ? 5'000 : 20'000;

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

// Full slots 0 to 2 and 10 to 12 are two runs; the room between them is found after either.
TEST(SlotLedger, RemembersFullSlotsWithoutLosingRoomBetweenThem) {
  SlotLedger ledger;
  const Instant start{Duration()};
  const auto slot = [&](int number) { return start + kWidth * number; };
  const Duration little = nanoseconds(10);
  EXPECT_EQ(ledger.reserve(slot(0), kWidth * 3), slot(3));
  EXPECT_EQ(ledger.reserve(slot(10), kWidth * 3), slot(13));
  EXPECT_EQ(ledger.reserve(slot(11), little), slot(13) + little);
  EXPECT_EQ(ledger.reserve(slot(1), little), slot(3) + little);
  EXPECT_EQ(ledger.reserve(slot(10), little), slot(13) + little * 2);
  EXPECT_EQ(ledger.reserve(slot(9), little), slot(9) + little);
  // Slots 3 to 9 have room for 7 widths less 20 ns.
  EXPECT_EQ(ledger.reserve(slot(2), kWidth * 7), slot(13) + little * 4);
}

// A slot of 655 ns holds 20 requests of 32 ns, but only one of 512 ns.
TEST(SlotLedger, SlotsHoldTwoOfTheLongestRequestsAtLeast) {
  EXPECT_EQ(SlotLedger(nanoseconds(32)).slot_width(), kWidth);
  EXPECT_EQ(SlotLedger(nanoseconds(512)).slot_width(), kWidth * 2);
  EXPECT_EQ(SlotLedger(nanoseconds(4096)).slot_width(), kWidth * 16);
}

TEST(SlotLedger, WideSlotsReachAsFar) {
  SlotLedger ledger(nanoseconds(4096));
  const Instant start{Duration()};
  const Duration half = SlotLedger::kLength / 2;
  EXPECT_EQ(ledger.reserve(start, half), start + half);
  EXPECT_EQ(ledger.overflow_count(), 0U);
  (void)ledger.reserve(start, half);
  EXPECT_GT(ledger.overflow_count(), 0U);
}

TEST(SlotLedger, LongestRequestsLeaveSomeSlots) {
  SlotLedger ledger(seconds(1));
  EXPECT_EQ(ledger.slot_width(), SlotLedger::kLength / SlotLedger::kSlotsMin);
  (void)ledger.reserve(Instant(), seconds(1));
  EXPECT_GT(ledger.overflow_count(), 0U);
}

void expect_random_reservations_match(double load, Duration request_max = Duration()) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  SlotLedger ledger(request_max);
  const int64_t width = ledger.slot_width().ticks();
  const double mean_step = static_cast<double>(width) / 4;
  std::map<int64_t, int64_t> used;  // Slot to ticks.
  int64_t now = 0;
  for (uint32_t step = 0; step < kSteps; step++) {
    now += prng.below(static_cast<uint32_t>(width / 2));
    const int64_t at = now + prng.below(static_cast<uint32_t>(width * 40));
    const int64_t work = prng.below(static_cast<uint32_t>(2 * load * mean_step));
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

TEST(SlotLedger, RandomReservationsMatchModel) { expect_random_reservations_match(0.8); }
// Work waits for more and more full slots, up to half of the ring.
TEST(SlotLedger, RandomReservationsOfABusyResourceMatchModel) {
  expect_random_reservations_match(1.5);
}

// 512 slots: later work shares places of the ring with work that is over.
TEST(SlotLedger, RandomReservationsOfLongRequestsMatchModel) {
  expect_random_reservations_match(0.8, nanoseconds(4096));
}

}  // namespace
}  // namespace tributary::engine
