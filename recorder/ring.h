// SPDX-License-Identifier: Apache-2.0
/// @file
/// A ring of events: one thread puts, any thread copies, nobody waits. A new event overwrites the
/// oldest one.
///
/// Model:   Event i lies in slot i modulo the capacity. put() writes the slot and then publishes
///          i + 1. A reader copies slots and then reads the published number h: the copies of the
///          events from h - capacity + 1 on are whole, because put() may be writing the slot of
///          event h, which was that of h - capacity. docs/flight-recorder.md draws the states.
/// Threads: put() belongs to one thread; everything else may run in any thread and in a signal
///          handler.
/// Memory:  Taken in the constructor; 32 bytes for each event.
/// Tests:   tests/recorder/ring_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "base/assert.h"
#include "recorder/event.h"

namespace tributary::recorder {

class Ring {
 public:
  /// @param capacity A power of two.
  explicit Ring(uint32_t capacity)
      : mask_(capacity - 1), slots_(std::make_unique<Slot[]>(capacity)) {
    TRIB_ASSERT(std::has_single_bit(capacity));
  }

  void put(const Words& words) {
    const uint64_t index = put_.load(std::memory_order_relaxed);  // Relaxed: its only writer.
    Slot& slot = slots_[index & mask_];
    // Release: a reader that sees one of these words also sees that the previous put() has
    // published `index`, and so discards the slot's former event. Pairs with the acquire in copy().
    for (uint32_t i = 0; i < words.size(); i++) {
      slot[i].store(words[i], std::memory_order_release);
    }
    put_.store(index + 1, std::memory_order_release);  // Pairs with the acquire in put_count().
  }

  [[nodiscard]] uint32_t capacity() const { return mask_ + 1; }
  /// Returns how many events were put since the start.
  [[nodiscard]] uint64_t put_count() const { return put_.load(std::memory_order_acquire); }
  /// Returns the oldest event that is whole if put_count() was `count` after it was copied.
  [[nodiscard]] static uint64_t first_whole(uint64_t count, uint32_t capacity) {
    return count < capacity ? 0 : count - capacity + 1;
  }

  /// Copies out.size() events from number `first` on. Compare with first_whole() afterwards.
  /// @pre They were put: first + out.size() <= put_count().
  void copy(uint64_t first, std::span<Words> out) const {
    for (uint64_t i = 0; i < out.size(); i++) {
      const Slot& slot = slots_[(first + i) & mask_];
      for (uint32_t word = 0; word < out[i].size(); word++) {
        out[i][word] = slot[word].load(std::memory_order_acquire);  // Pairs with put().
      }
    }
  }

 private:
  using Slot = std::array<std::atomic<uint64_t>, 4>;

  const uint32_t mask_;
  const std::unique_ptr<Slot[]> slots_;  ///< Shape [capacity].
  std::atomic<uint64_t> put_{0};
};

}  // namespace tributary::recorder
