// SPDX-License-Identifier: Apache-2.0
#include "io/faults/held_packets.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tributary::io {

HeldPackets::HeldPackets(uint32_t slot_bytes)
    : slot_bytes_(slot_bytes),
      storage_(std::make_unique_for_overwrite<std::byte[]>(size_t{kSlots} * slot_bytes)) {
  for (uint32_t i = 0; i < kSlots; i++) {
    slots_[i].data = storage_.get() + size_t{i} * slot_bytes;
    free_[free_count_++] = i;
  }
}

std::optional<uint32_t> HeldPackets::copy(std::span<const std::byte> bytes,
                                          engine::PacketLayer layer, const Endpoint& endpoint) {
  if (free_count_ == 0 || bytes.size() > slot_bytes_) return std::nullopt;
  const uint32_t index = free_[--free_count_];
  Slot& slot = slots_[index];
  if (!bytes.empty()) std::memcpy(slot.data, bytes.data(), bytes.size());
  slot.size = static_cast<uint32_t>(bytes.size());
  slot.layer = layer;
  slot.endpoint = endpoint;
  lent_[lent_count_++] = index;
  return index;
}

void HeldPackets::hold(uint32_t index, uint32_t packets_left, uint32_t calls_left) {
  // The slot was lent last or nearly so, so this search is short.
  uint32_t position = lent_count_;
  while (position > 0 && lent_[position - 1] != index) position--;
  TRIB_ASSERT(position > 0);  // Contract: the slot is lent.
  lent_[position - 1] = lent_[--lent_count_];
  slots_[index].packets_left = packets_left;
  slots_[index].calls_left = calls_left;
  held_[held_count_++] = index;
}

void HeldPackets::packet_passed() {
  for (uint32_t i = 0; i < held_count_; i++) {
    Slot& slot = slots_[held_[i]];
    slot.packets_left -= slot.packets_left != 0 ? 1 : 0;
  }
}

void HeldPackets::call_passed() {
  for (uint32_t i = 0; i < held_count_; i++) {
    Slot& slot = slots_[held_[i]];
    slot.calls_left -= slot.calls_left != 0 ? 1 : 0;
  }
}

void HeldPackets::make_all_due() {
  for (uint32_t i = 0; i < held_count_; i++) slots_[held_[i]].calls_left = 0;
}

std::optional<uint32_t> HeldPackets::take_due() {
  for (uint32_t i = 0; i < held_count_; i++) {
    const uint32_t index = held_[i];
    if (slots_[index].packets_left != 0 && slots_[index].calls_left != 0) continue;
    std::copy(held_.begin() + i + 1, held_.begin() + held_count_, held_.begin() + i);
    held_count_--;
    lent_[lent_count_++] = index;
    return index;
  }
  return std::nullopt;
}

void HeldPackets::reclaim() {
  while (lent_count_ != 0) free_[free_count_++] = lent_[--lent_count_];
}

}  // namespace tributary::io
