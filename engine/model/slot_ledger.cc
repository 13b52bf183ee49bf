// SPDX-License-Identifier: Apache-2.0
#include "engine/model/slot_ledger.h"

namespace tributary::engine {
namespace {

constexpr auto kWidthTicks = static_cast<uint32_t>(SlotLedger::kSlotWidth.ticks());

}  // namespace

uint64_t SlotLedger::find_room(uint64_t number) {
  const uint64_t last = number + kSlots / 2;  // Stays clear of slots reserved earlier.
  const bool is_known = number >= full_begin_ && number < full_end_;
  const uint64_t begin = is_known ? full_end_ : number;
  uint64_t free = begin;
  while (free < last) {
    const Slot& slot = slot_at(free);
    if (slot.used_ticks < kWidthTicks) break;
    free += slot.next_free;
  }
  free = std::min(free, last);
  for (uint64_t full = begin; full < free;) {
    Slot& slot = slot_at(full);
    full += slot.next_free;
    slot.next_free = static_cast<uint32_t>(free - (full - slot.next_free));
  }
  remember_full(number, free);
  return free;
}

void SlotLedger::remember_full(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  if (begin > full_end_ || end < full_begin_) {
    full_begin_ = begin;
    full_end_ = end;
    return;
  }
  full_begin_ = std::min(full_begin_, begin);
  full_end_ = std::max(full_end_, end);
}

Duration SlotLedger::reserved_from(Instant at) const {
  const int64_t at_ticks = at.since_start().ticks();
  const auto first = static_cast<uint64_t>(at_ticks >> kSlotShift);
  int64_t work = 0;
  for (const Slot& slot : slots_) {
    if (slot.number == UINT64_MAX || slot.number < first) continue;
    const int64_t over =
        slot.number == first ? at_ticks - static_cast<int64_t>(first << kSlotShift) : 0;
    work += std::max<int64_t>(0, int64_t{slot.used_ticks} - over);
  }
  return Duration::from_ticks(work);
}

Instant SlotLedger::reserve_further(Instant at, Duration work) {
  const auto at_ticks = static_cast<uint64_t>(at.since_start().ticks());
  auto left = static_cast<uint64_t>(work.ticks());
  const uint64_t first = at_ticks >> kSlotShift;
  const uint64_t last = first + kSlots / 2;
  for (uint64_t number = first;;) {
    number = find_room(number);
    Slot& slot = slot_at(number);
    const bool beyond = number >= last;
    const uint64_t room = kWidthTicks - std::min(slot.used_ticks, kWidthTicks);
    const uint64_t taken = std::min(left, room);
    slot.used_ticks += static_cast<uint32_t>(taken);
    left -= taken;
    if (left > 0 && !beyond) number = fill_untouched(number, last, left);
    if (left == 0 || beyond) {
      overflow_count_ += left == 0 ? 0 : 1;
      const Instant packed(Duration::from_ticks(static_cast<int64_t>(number << kSlotShift)) +
                           Duration::from_ticks(slot_at(number).used_ticks));
      return std::max(at + work, packed);
    }
  }
}

uint64_t SlotLedger::fill_untouched(uint64_t full, uint64_t last, uint64_t& left) {
  uint64_t number = full;
  while (left > 0 && number + 1 < last) {
    Slot& slot = slots_[(number + 1) % kSlots];
    if (slot.number == number + 1) break;
    number++;
    const uint64_t taken = std::min<uint64_t>(left, kWidthTicks);
    slot = {number, static_cast<uint32_t>(taken), 1};
    left -= taken;
  }
  remember_full(full, number);
  return number;
}

}  // namespace tributary::engine
