// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decides whether a thread that waits for a packet yields its core or sleeps.
///
/// Model:   Yielding pays if most waits are short: a sleeping virtual core takes longer to wake up
///          than most results take to arrive, and other threads get the core meanwhile. A score
///          counts short waits up and long waits down. A wait that used up its yields was in vain
///          and sets the score to its lowest value.
/// Source:  docs/notes/race.md has the measurements.
/// Threads: Owned by one thread.
/// Errors:  None.
/// Tests:   tests/host/yield_policy_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace tributary::host {

class YieldPolicy {
 public:
  /// Yields of one wait. If nobody else wants the core, they take about 50 us.
  static constexpr uint32_t kYieldsMax = 32;
  /// Longest short wait. It includes the time to wake up. Assumed; trains of 64 KiB on a link of
  /// 1 Gbit/s are 0.5 ms apart, and yielding between them would waste time.
  static constexpr Duration kShortWait = microseconds(300);
  /// Largest distance of the score from 0.
  static constexpr int32_t kScoreMax = 8;

  /// Returns true if the thread should yield; false if it should sleep.
  [[nodiscard]] bool pays() const { return score_ > 0 && yields_ < kYieldsMax; }
  void on_yield() { yields_++; }
  /// Records that a packet has ended a wait.
  void on_packet(Duration waited) {
    const bool in_vain = yields_ == kYieldsMax;
    score_ = in_vain ? -kScoreMax
                     : std::clamp(score_ + (waited < kShortWait ? 1 : -1), -kScoreMax, kScoreMax);
    yields_ = 0;
  }

 private:
  int32_t score_ = 0;
  uint32_t yields_ = 0;  ///< In this wait.
};

}  // namespace tributary::host
