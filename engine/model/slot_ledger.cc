// SPDX-License-Identifier: Apache-2.0
#include "engine/model/slot_ledger.h"

#include <bit>

namespace tributary::engine {

SlotLedger::SlotLedger(Duration request_max) {
  const uint32_t shift_max = kSlotShift + std::countr_zero(kSlots / kSlotsMin);
  while (slot_width() < request_max * kRequestsPerSlot && shift_ < shift_max) shift_++;
  slots_.resize(kSlots >> (shift_ - kSlotShift));
  mask_ = slots_.size() - 1;
  slots_shift_ = static_cast<uint32_t>(std::countr_zero(slots_.size()));
}

uint64_t SlotLedger::find_room(uint64_t number) {
  const uint64_t last = number + reach();
  const bool is_known = number >= full_begin_ && number < full_end_;
  const uint64_t begin = is_known ? full_end_ : number;
  uint64_t free = begin;
  while (free < last) {
    const Slot& slot = slot_at(free);
    if (slot.level < width_ticks()) break;
    free += slot.level - width_ticks() + 1;
  }
  free = std::min(free, last);
  for (uint64_t full = begin; full < free;) {
    Slot& slot = slot_at(full);
    const uint64_t next = full + slot.level - width_ticks() + 1;
    slot.level = width_ticks() + static_cast<uint32_t>(free - full) - 1;
    full = next;
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
  const auto first = static_cast<uint64_t>(at_ticks >> shift_);
  int64_t work = 0;
  for (uint64_t number = first; number < first + slots_.size(); number++) {
    const Slot& slot = slots_[number & mask_];
    if (slot.lap != lap_of(number)) continue;
    const int64_t over = number == first ? at_ticks - static_cast<int64_t>(first << shift_) : 0;
    work += std::max<int64_t>(0, int64_t{used_of(slot)} - over);
  }
  return Duration::from_ticks(work);
}

Instant SlotLedger::reserve_further(Instant at, Duration work) {
  const auto at_ticks = static_cast<uint64_t>(at.since_start().ticks());
  auto left = static_cast<uint64_t>(work.ticks());
  const uint64_t first = at_ticks >> shift_;
  const uint64_t last = first + reach();
  for (uint64_t number = first;;) {
    number = find_room(number);
    Slot& slot = slot_at(number);
    const bool beyond = number >= last;
    const uint64_t room = width_ticks() - used_of(slot);
    const uint64_t taken = std::min(left, room);
    slot.level += static_cast<uint32_t>(taken);
    left -= taken;
    if (left > 0 && !beyond) number = fill_untouched(number, last, left);
    if (left == 0 || beyond) {
      overflow_count_ += left == 0 ? 0 : 1;
      const Instant packed(Duration::from_ticks(static_cast<int64_t>(number << shift_)) +
                           Duration::from_ticks(used_of(slot_at(number))));
      return std::max(at + work, packed);
    }
  }
}

uint64_t SlotLedger::fill_untouched(uint64_t full, uint64_t last, uint64_t& left) {
  uint64_t number = full;
  while (left > 0 && number + 1 < last) {
    Slot& slot = slots_[(number + 1) & mask_];
    if (slot.lap == lap_of(number + 1)) break;
    number++;
    const uint64_t taken = std::min<uint64_t>(left, width_ticks());
    slot = {lap_of(number), static_cast<uint32_t>(taken)};
    left -= taken;
  }
  remember_full(full, number);
  return number;
}

}  // namespace tributary::engine
