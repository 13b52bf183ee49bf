// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who has reserved how much of a resource's time, for resources that are asked for times ahead and
/// out of order: a leaf loop reserves its last request before another thread reserves its first.
///
/// Model:   Time is cut into slots of equal width; each holds as much work as it is wide. A
///          reservation takes what is free from its slot on, in as many slots as it needs. Work
///          inside a slot counts as packed to its beginning, so within a slot nobody waits for the
///          order of arrivals; that is the error, at most one slot.
/// Bounds:  A ring of kSlots slots. What would go beyond it stays in its last slot and is counted.
/// Units:   Work is time of the resource.
/// Threads: One.
/// Memory:  Taken in the constructor.
/// Tests:   tests/engine/model/slot_ledger_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace tributary::engine {

class SlotLedger {
 public:
  /// 655 ns: a few requests of the longest kind (32 cycles at 1 GHz), so that capacity is exact to
  /// a fraction of what a packet's loop takes (some 10 us).
  static constexpr uint32_t kSlotShift = 16;
  static constexpr Duration kSlotWidth = Duration::from_ticks(int64_t{1} << kSlotShift);
  /// 5.4 ms ahead. The furthest reservations are those of a saturated machine: all its threads'
  /// work, 1920 threads x 256 requests x 32 ns / 12 banks = 1.3 ms.
  static constexpr uint32_t kSlots = 8192;

  SlotLedger() : slots_(kSlots) {}

  /// Reserves `work` from `at` on. @pre `at` does not lie before the earliest time at which others
  /// may still ask, by more than the ring is long.
  /// @return when it is done, at least at + work.
  [[nodiscard]] Instant reserve(Instant at, Duration work) {
    // Nearly always the slot at hand has room for all of it.
    const int64_t at_ticks = at.since_start().ticks();
    const int64_t number = at_ticks >> kSlotShift;
    Slot& slot = slots_[static_cast<uint64_t>(number) % kSlots];
    const int64_t used = slot.used_ticks + work.ticks();
    if (slot.number == static_cast<uint64_t>(number) && used < kSlotWidth.ticks()) [[likely]] {
      slot.used_ticks = static_cast<uint32_t>(used);
      const int64_t packed = (number << kSlotShift) + used;
      return Instant(Duration::from_ticks(std::max(at_ticks + work.ticks(), packed)));
    }
    return reserve_further(at, work);
  }

  /// Work that is reserved from `at` on; of the slot at hand, what is not over by then.
  [[nodiscard]] Duration reserved_from(Instant at) const;

  /// Reservations that did not fit into the ring.
  [[nodiscard]] uint64_t overflow_count() const { return overflow_count_; }

 private:
  struct Slot {
    uint64_t number = UINT64_MAX;  ///< Which slot of time this is.
    uint32_t used_ticks = 0;
    uint32_t next_free = 1;  ///< Full: the next slot with room is at least so far on.
  };

  [[nodiscard]] Slot& slot_at(uint64_t number) {
    Slot& slot = slots_[number % kSlots];
    if (slot.number != number) slot = {number, 0, 1};
    return slot;
  }
  [[nodiscard]] Instant reserve_further(Instant at, Duration work);
  /// The first slot with room at or after `number`; shortens the way for the next search.
  [[nodiscard]] uint64_t find_room(uint64_t number);

  std::vector<Slot> slots_;
  uint64_t overflow_count_ = 0;
};

}  // namespace tributary::engine
