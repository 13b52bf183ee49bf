// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recognises sequence numbers that were seen before.
///
/// Model:   A bitmap of the last kBits numbers below the largest one seen, which moves forward in
///          whole words. Older numbers count as seen.
/// Threads: Owned by one thread.
/// Source:  RFC 6479.
/// Tests:   tests/auth/replay_window_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tributary::auth {

class ReplayWindow {
 public:
  /// A packet is still accepted after about this many later packets of the same sender. Assumed:
  /// networks reorder less. A packet that arrives later counts as lost, and is repaired.
  static constexpr uint64_t kBits = 1024;

  /// Records a number. @return false if it was recorded before, or is too old. Numbers begin at 1.
  [[nodiscard]] bool accept(uint64_t number) {
    const uint64_t word = number / 64;
    const uint64_t newest_word = newest_ / 64;
    if (number > newest_) {
      const uint64_t cleared = std::min<uint64_t>(word - newest_word, kWords);
      for (uint64_t i = 1; i <= cleared; i++) seen_[(newest_word + i) % kWords] = 0;
      newest_ = number;
    } else if (number == 0 || word + kWords <= newest_word) {
      return false;
    }
    const uint64_t bit = uint64_t{1} << (number % 64);
    uint64_t& bits = seen_[word % kWords];
    if ((bits & bit) != 0) return false;
    bits |= bit;
    return true;
  }

 private:
  static constexpr uint64_t kWords = kBits / 64 + 1;

  uint64_t newest_ = 0;
  std::array<uint64_t, kWords> seen_{};
};

}  // namespace tributary::auth
