// SPDX-License-Identifier: Apache-2.0
/// @file
/// A token bucket that bounds the replies to one kind of sender.
///
/// Model:   Holds at most `burst` tokens, and gains `per_ms` of them evenly in each millisecond.
/// Threads: Owned by one shard.
/// Tests:   tests/apps/trio_ml/session/reply_budget_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace tributary::trio_ml {

class ReplyBudget {
 public:
  constexpr ReplyBudget(uint32_t burst, uint32_t per_ms)
      : burst_(burst), per_ms_(per_ms), tokens_(burst) {}

  /// Tells whether take() would find no token, without taking one. @pre As take().
  [[nodiscard]] bool is_spent(Instant now) const { return tokens_ == 0 && gained(now) == 0; }
  /// Takes a token. @return false if none is left. @pre `now` is not earlier than the last call's.
  [[nodiscard]] bool take(Instant now) {
    const uint64_t more = gained(now);
    if (tokens_ + more >= burst_) {
      tokens_ = burst_;
      filled_at_ = now;
    } else if (more > 0) {
      tokens_ += static_cast<uint32_t>(more);
      // The part of a token that is left over counts next time.
      const uint64_t used_ns = (more * kNsPerMs + per_ms_ - 1) / per_ms_;
      filled_at_ = filled_at_ + nanoseconds(static_cast<int64_t>(used_ns));
    }
    if (tokens_ == 0) return false;
    tokens_--;
    return true;
  }

 private:
  static constexpr uint64_t kNsPerMs = 1'000'000;

  /// Returns the tokens gained since the last filling, but not more than those of one second.
  [[nodiscard]] uint64_t gained(Instant now) const {
    const int64_t passed_ns = std::min(in_nanoseconds(now - filled_at_), kNanosecondsPerSecond);
    return static_cast<uint64_t>(passed_ns) * per_ms_ / kNsPerMs;
  }

  uint32_t burst_;
  uint32_t per_ms_;
  uint32_t tokens_;
  Instant filled_at_;
};

}  // namespace tributary::trio_ml
