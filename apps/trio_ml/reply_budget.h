// SPDX-License-Identifier: Apache-2.0
/// @file
/// A token bucket that bounds the replies to one kind of sender.
///
/// Model:   Holds at most `burst` tokens, and gains `per_ms` of them each millisecond.
/// Threads: Owned by one shard.
/// Tests:   tests/apps/trio_ml/reply_budget_test.cc
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
  [[nodiscard]] bool is_spent(Instant now) const {
    return tokens_ == 0 && in_nanoseconds(now - filled_at_) < 1'000'000;
  }
  /// Takes a token. @return false if none is left. @pre `now` is not earlier than the last call's.
  [[nodiscard]] bool take(Instant now) {
    const int64_t passed_ms = in_nanoseconds(now - filled_at_) / 1'000'000;
    if (passed_ms > 0) {
      const uint64_t gained = static_cast<uint64_t>(passed_ms) * per_ms_;
      tokens_ = static_cast<uint32_t>(std::min<uint64_t>(burst_, tokens_ + gained));
      filled_at_ = now;
    }
    if (tokens_ == 0) return false;
    tokens_--;
    return true;
  }

 private:
  uint32_t burst_;
  uint32_t per_ms_;
  uint32_t tokens_;
  Instant filled_at_;
};

}  // namespace tributary::trio_ml
