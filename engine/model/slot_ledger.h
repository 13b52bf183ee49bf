// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reservations of a resource's time, for requests that come ahead of time and out of order: a leaf
/// loop reserves its last request before another thread reserves its first.
///
/// Model:   Time is cut into slots of equal width, and a slot holds as much work as it is wide. A
///          reservation takes the free time from its slot on, in as many slots as it needs. The
///          order of arrival inside a slot is lost, so the error is at most one slot.
/// Bounds:  A ring of kLength. A reservation reaches kReach ahead; the rest of its work
///          takes none of the resource's time, and overflow_count() counts the reservation.
/// Units:   Work is time of the resource.
/// Threads: One. All memory is taken in the constructor.
/// Tests:   tests/engine/model/slot_ledger_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace tributary::engine {

class SlotLedger {
 public:
  /// 655 ns: a few requests of the longest kind (32 cycles at 1 GHz). So the capacity is exact to a
  /// fraction of the time of a packet's loop (some 10 us).
  static constexpr uint32_t kSlotShift = 16;
  static constexpr Duration kSlotWidth = Duration::from_ticks(int64_t{1} << kSlotShift);
  /// 5.4 ms ahead. A saturated machine makes the furthest reservations, with all its threads' work:
  /// 1920 threads x 256 requests x 32 ns / 12 banks = 1.3 ms.
  static constexpr uint32_t kSlots = 8192;
  static constexpr Duration kLength = kSlotWidth * kSlots;
  /// Longest time between a request and its slot: half of the ring, clear of earlier reservations.
  static constexpr Duration kReach = kLength / 2;
  /// A slot is at least as wide as this many requests of the longest kind, those of trains. Few
  /// wide slots stay in the processor's cache. Assumed; docs/model.md has the error.
  static constexpr int64_t kRequestsPerSlot = 2;
  static constexpr uint32_t kSlotsMin = 64;

  /// @param request_max  Work of the longest request.
  explicit SlotLedger(Duration request_max = Duration());

  [[nodiscard]] Duration slot_width() const { return Duration::from_ticks(int64_t{1} << shift_); }

  /// Reserves `work` from `at` on.
  /// @pre No caller still requests a time that differs from `at` by more than the ring's length.
  /// @return when the work is done, at least at + work.
  [[nodiscard]] Instant reserve(Instant at, Duration work) {
    // The slot at `at` nearly always has room for all of it.
    const int64_t at_ticks = at.since_start().ticks();
    const int64_t number = at_ticks >> shift_;
    Slot& slot = slots_[static_cast<uint64_t>(number) & mask_];
    const int64_t used = slot.level + work.ticks();
    if (slot.lap == lap_of(static_cast<uint64_t>(number)) && used < int64_t{1} << shift_)
        [[likely]] {
      slot.level = static_cast<uint32_t>(used);
      const int64_t packed = (number << shift_) + used;
      return Instant(Duration::from_ticks(std::max(at_ticks + work.ticks(), packed)));
    }
    return reserve_further(at, work);
  }

  /// Returns the work reserved from `at` on; of the slot at `at`, only the part not yet over.
  [[nodiscard]] Duration reserved_from(Instant at) const;

  /// Returns the number of reservations that found too little room within kReach.
  [[nodiscard]] uint64_t overflow_count() const { return overflow_count_; }

 private:
  /// An entry holds one slot of time at a time. Small, because all banks' entries share the cache.
  struct Slot {
    uint32_t lap = UINT32_MAX;  ///< lap_of() of the slot that the entry holds.
    /// Below the slot's width: the used ticks. From the width on the slot is full, and level -
    /// width + 1 is the number of slots to skip, at least, to one with room.
    uint32_t level = 0;
  };

  /// Returns how often the ring was used up to this slot. The number repeats after 2^32 rings: 267
  /// days.
  [[nodiscard]] uint32_t lap_of(uint64_t number) const {
    return static_cast<uint32_t>(number >> slots_shift_);
  }
  [[nodiscard]] Slot& slot_at(uint64_t number) {
    Slot& slot = slots_[number & mask_];
    if (slot.lap != lap_of(number)) slot = {lap_of(number), 0};
    return slot;
  }
  [[nodiscard]] uint32_t width_ticks() const { return uint32_t{1} << shift_; }
  [[nodiscard]] uint32_t used_of(const Slot& slot) const {
    return std::min(slot.level, width_ticks());
  }
  /// Returns the slots in kReach.
  [[nodiscard]] uint64_t reach() const { return slots_.size() / 2; }
  [[nodiscard]] Instant reserve_further(Instant at, Duration work);
  /// Returns the first slot with room at or after `number`; shortens the path of later searches.
  [[nodiscard]] uint64_t find_room(uint64_t number);
  /// Gives work to the slots after `full` that hold none yet, in order, as far as it goes.
  /// @param left The work; receives the rest. @return the last slot that got some, or `full`.
  uint64_t fill_untouched(uint64_t full, uint64_t last, uint64_t& left);
  /// Records that all slots from `begin` to before `end` are full.
  void remember_full(uint64_t begin, uint64_t end);

  uint32_t shift_ = kSlotShift;  ///< Width of a slot: 2^shift_ ticks.
  std::vector<Slot> slots_;      ///< Shape [power of two].
  uint64_t mask_ = 0;
  uint32_t slots_shift_ = 0;  ///< The ring has 2^slots_shift_ slots.
  // One run of full slots. Requests for a busy resource often fall inside it, and then need no
  // search. A slot stays full until its time is over.
  uint64_t full_begin_ = 0;
  uint64_t full_end_ = 0;
  uint64_t overflow_count_ = 0;
};

}  // namespace tributary::engine
