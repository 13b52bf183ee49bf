// SPDX-License-Identifier: Apache-2.0
/// @file
/// The 'Recently Referenced' (REF) flags of a record store, and the scan that ages them (Trio paper
/// §5). Creating or looking up a record sets its flag. A timer thread tests and clears the flags of
/// its part of the store. A live record whose flag is still clear has been idle since the previous
/// scan.
///
/// Shapes:  Two dense bit arrays, `live` and `ref`, with one bit for each record slot in
///          [0, capacity); 64 records to a word. ref is never set where live is clear.
/// Threads: Owned by one thread, timers included. Nothing here is atomic.
/// Errors:  A slot outside [0, capacity) is a bug.
/// Memory:  2 bits a record, taken in the constructor.
/// Tests:   tests/memory/ref_bits_test.cc, tests/memory/ref_bits_bench.cc
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "base/mutant.h"

namespace tributary::memory {

class RefBits {
 public:
  explicit RefBits(uint32_t capacity)
      : capacity_(capacity),
        live_((uint64_t{capacity} + kBitsPerWord - 1) / kBitsPerWord),
        ref_(live_.size()) {}

  /// Marks a created record live and referenced. The slot may be live already.
  void mark_live(uint32_t slot) {
    live_[word_of(slot)] |= bit_of(slot);
    ref_[word_of(slot)] |= bit_of(slot);
  }

  /// Clears both bits of an erased record. Does nothing if the slot is not live.
  void clear_live(uint32_t slot) {
    live_[word_of(slot)] &= ~bit_of(slot);
    ref_[word_of(slot)] &= ~bit_of(slot);
  }

  [[nodiscard]] bool is_live(uint32_t slot) const {
    return (live_[word_of(slot)] & bit_of(slot)) != 0;
  }

  [[nodiscard]] bool is_referenced(uint32_t slot) const {
    return (ref_[word_of(slot)] & bit_of(slot)) != 0;
  }

  /// Returns the live slots from `begin` on, a multiple of 64, as bits of one word.
  [[nodiscard]] uint64_t live_mask(uint32_t begin) const {
    TRIB_ASSERT(begin % kBitsPerWord == 0);
    return live_[word_of(begin)];
  }

  /// Marks a looked-up record as referenced. Does nothing if the slot is not live.
  void touch(uint32_t slot) { ref_[word_of(slot)] |= live_[word_of(slot)] & bit_of(slot); }

  /// Clears the slot's flag. @return whether it was set.
  bool test_and_clear(uint32_t slot) {
    const bool was_set = is_referenced(slot);
    ref_[word_of(slot)] &= ~bit_of(slot);
    return was_set;
  }

  /// Clears the flag of each live slot in [begin, end) and calls `on_idle(slot)` if it was already
  /// clear. Slots come in ascending order.
  ///
  /// `on_idle` may mark, clear and touch any slot. The scan skips a slot that it frees and keeps a
  /// flag that it sets, so a record recreated in the same slot starts fresh.
  ///
  /// @param end  At most the capacity; begin <= end.
  template <class F>
  void scan_idle(uint32_t begin, uint32_t end, F&& on_idle) {
    TRIB_ASSERT(begin <= end && end <= capacity_);
    if (begin == end) return;
    const uint32_t word_first = begin / kBitsPerWord;
    const uint32_t word_last = (end - 1) / kBitsPerWord;
    for (uint32_t word = word_first; word <= word_last; word++) {
      uint64_t in_range = ~uint64_t{0};
      if (word == word_first) in_range &= ~uint64_t{0} << (begin % kBitsPerWord);
      if (word == word_last)
        in_range &= ~uint64_t{0} >> (kBitsPerWord - 1 - (end - 1) % kBitsPerWord);
      uint64_t idle = live_[word] & ~ref_[word] & in_range;
      if (TRIB_MUTANT(kAgedOneScanEarly)) idle = live_[word] & in_range;
      ref_[word] &= ~in_range;
      while (idle != 0) [[unlikely]] {
          const auto bit = static_cast<uint32_t>(std::countr_zero(idle));
          idle &= idle - 1;
          on_idle(word * kBitsPerWord + bit);
          idle &= live_[word] & ~ref_[word];  // Skip slots it freed or marked.
        }
    }
  }

  [[nodiscard]] uint32_t capacity() const { return capacity_; }

 private:
  static constexpr uint32_t kBitsPerWord = 64;

  [[nodiscard]] uint32_t word_of(uint32_t slot) const {
    TRIB_ASSERT(slot < capacity_);
    return slot / kBitsPerWord;
  }
  static constexpr uint64_t bit_of(uint32_t slot) { return uint64_t{1} << (slot % kBitsPerWord); }

  uint32_t capacity_;
  std::vector<uint64_t> live_;  ///< Shape [ceil(capacity / 64)].
  std::vector<uint64_t> ref_;   ///< Same shape.
};

}  // namespace tributary::memory
