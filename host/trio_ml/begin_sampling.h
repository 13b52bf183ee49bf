// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chooses the all-reduces whose beginning a worker reports to its aggregator.
///
/// Model:   A worker reports the numbers that are multiples of its stride, a power of two. It
///          doubles the stride while reports would be closer together than kGapMin. So ranks with
///          different strides still report common numbers.
/// Threads: Owned by one.
/// Tests:   tests/host/trio_ml/begin_sampling_test.cc
#pragma once

#include <cstdint>

#include "base/time.h"

namespace tributary::host {

class BeginSampling {
 public:
  /// The shortest time between two reports. Assumed: short beside most iterations of training, and
  /// five packets a second cost nothing.
  static constexpr Duration kGapMin = milliseconds(200);
  static constexpr uint32_t kStrideMax = 1 << 16;

  /// Returns whether to report that this all-reduce begins. Call it once for each, in order.
  [[nodiscard]] bool take(uint32_t number, Instant now) {
    if (number % stride_ != 0) return false;
    const Duration gap = now - taken_at_;
    if (has_taken_ && gap < kGapMin) {
      if (stride_ < kStrideMax) stride_ *= 2;
      return false;
    }
    // Not at twice the gap: the stride would double again at once.
    if (has_taken_ && gap >= kGapMin * 4 && stride_ > 1) stride_ /= 2;
    has_taken_ = true;
    taken_at_ = now;
    return true;
  }

 private:
  uint32_t stride_ = 1;
  bool has_taken_ = false;
  Instant taken_at_;
};

}  // namespace tributary::host
