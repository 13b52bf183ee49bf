// SPDX-License-Identifier: Apache-2.0
/// @file
/// A bounded first-in, first-out ring of packets with their bytes, in storage taken once.
///
/// Shapes:  `capacity` slots of `slot_bytes`. A slot is free, filled, or lent: the oldest filled
///          ones are lent in order, and reclaim() frees all that are lent.
/// Threads: Not synchronised; its owner does that.
/// Memory:  All of it is taken in the constructor.
/// Tests:   by way of tests/io/memory/in_memory_port_test.cc
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
    Endpoint endpoint;  ///< Where from, or where to.
  };

  PacketRing(uint32_t capacity, uint32_t slot_bytes)
      : slot_bytes_(slot_bytes),
        storage_(std::make_unique_for_overwrite<std::byte[]>(size_t{capacity} * slot_bytes)),
        slots_(capacity) {
    for (uint32_t i = 0; i < capacity; i++) {
      slots_[i].data = storage_.get() + size_t{i} * slot_bytes;
    }
  }

  /// The next free slot's whole storage, to be filled and then push()ed; empty when full.
  [[nodiscard]] std::span<std::byte> free_slot() {
    if (lent_count_ + filled_count_ == slots_.size()) return {};
    return {slots_[at(lent_count_ + filled_count_)].data, slot_bytes_};
  }

  /// Completes what was written to free_slot().
  void push(uint32_t size, const Endpoint& endpoint) {
    Slot& slot = slots_[at(lent_count_ + filled_count_)];
    slot.size = size;
    slot.endpoint = endpoint;
    filled_count_++;
  }

  /// Lends the oldest filled slot until reclaim(); nullptr when there is none.
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
  uint32_t first_ = 0;         ///< The oldest lent slot, or the oldest filled one.
  uint32_t lent_count_ = 0;    ///< From first_ on.
  uint32_t filled_count_ = 0;  ///< After those.
};

}  // namespace tributary::io
