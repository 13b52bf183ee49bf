// SPDX-License-Identifier: Apache-2.0
/// @file
/// A bounded first-in, first-out ring of packets and their bytes.
///
/// Shapes:  `capacity` slots of `slot_bytes`. A slot is free, filled or lent. lend() lends the
///          filled slots, oldest first; reclaim() frees all lent slots.
/// Threads: Not synchronised; the owner must do that.
/// Memory:  The constructor allocates all of it.
/// Tests:   through tests/io/memory/in_memory_port_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/endpoint.h"

namespace tributary::io {

class PacketRing {
 public:
  struct Slot {
    std::byte* data = nullptr;
    uint32_t size = 0;
    Endpoint endpoint;  ///< Sender of a received packet, destination of a sent one.
  };

  PacketRing(uint32_t capacity, uint32_t slot_bytes)
      : slot_bytes_(slot_bytes),
        storage_(std::make_unique_for_overwrite<std::byte[]>(size_t{capacity} * slot_bytes)),
        slots_(capacity) {
    for (uint32_t i = 0; i < capacity; i++) {
      slots_[i].data = storage_.get() + size_t{i} * slot_bytes;
    }
  }

  /// Returns the whole storage of the next free slot, to be filled and then passed to push().
  /// Returns an empty span if the ring is full.
  [[nodiscard]] std::span<std::byte> free_slot() {
    if (lent_count_ + filled_count_ == slots_.size()) return {};
    return {slots_[at(lent_count_ + filled_count_)].data, slot_bytes_};
  }

  /// Makes the slot that free_slot() returned a filled one.
  void push(uint32_t size, const Endpoint& endpoint) {
    Slot& slot = slots_[at(lent_count_ + filled_count_)];
    slot.size = size;
    slot.endpoint = endpoint;
    filled_count_++;
  }

  /// Lends the oldest filled slot until reclaim(); returns nullptr if there is none.
  [[nodiscard]] const Slot* lend() {
    if (filled_count_ == 0) return nullptr;
    const Slot& slot = slots_[at(lent_count_)];
    lent_count_++;
    filled_count_--;
    return &slot;
  }

  /// Frees every lent slot.
  void reclaim() {
    first_ = at(lent_count_);
    lent_count_ = 0;
  }

  [[nodiscard]] uint32_t filled_count() const { return filled_count_; }

 private:
  [[nodiscard]] uint32_t at(uint32_t offset) const {
    return (first_ + offset) % static_cast<uint32_t>(slots_.size());
  }

  const uint32_t slot_bytes_;
  const std::unique_ptr<std::byte[]> storage_;
  std::vector<Slot> slots_;
  uint32_t first_ = 0;         ///< Oldest lent slot, or oldest filled one if none is lent.
  uint32_t lent_count_ = 0;    ///< Slots from first_ on.
  uint32_t filled_count_ = 0;  ///< Slots after the lent ones.
};

}  // namespace tributary::io
