// SPDX-License-Identifier: Apache-2.0
/// @file
/// Limits the CPU time of a polling core to a share of the time that passes, so that programs on
/// the same CPU are not starved.
///
/// Model:   Every kLookEvery the core compares the CPU time that it has used with its share of the
///          time that has passed. It pauses until the excess is worked off. Unused time is lost:
///          there is no credit.
/// Threads: Owned by one thread.
/// Errors:  None.
/// Tests:   tests/engine/live/cpu_limiter_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace tributary::engine {

class CpuLimiter {
 public:
  /// Reading a thread's CPU time is a system call (0.2 us), so it must be rare beside bursts;
  /// packets must not wait long in a pause. Assumed.
  static constexpr Duration kLookEvery = milliseconds(1);

  /// @param percent Share of the time, 1 … 100.
  CpuLimiter(uint32_t percent, Instant now, Duration cpu_time)
      : percent_(percent), looked_at_(now), cpu_time_(cpu_time) {}

  /// Tells whether it is time to call pause().
  [[nodiscard]] bool is_due(Instant now) const {
    return percent_ < 100 && now - looked_at_ >= kLookEvery;
  }
  /// Returns how long the core must pause. @param cpu_time CPU time of the thread since its start.
  [[nodiscard]] Duration pause(Instant now, Duration cpu_time) {
    const Duration used = cpu_time - cpu_time_;
    const Duration allowed = (now - looked_at_) * percent_ / 100;
    looked_at_ = now;
    cpu_time_ = cpu_time;
    excess_ = std::max(Duration(), excess_ + used - allowed);
    return excess_ * 100 / percent_;
  }

 private:
  const int64_t percent_;
  Instant looked_at_;
  Duration cpu_time_;
  Duration excess_;  ///< CPU time used beyond the share.
};

}  // namespace tributary::engine
