// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long to wait for a result before asking what became of it.
///
/// Model:   A result takes the network's time plus the wait for the slowest peer, and, after a
/// loss,
///          for that peer's repair. A mean (RFC 6298) would learn those repairs as if they were the
///          network's time and repair ever more slowly; so this follows the median, which the
///          minority of repaired blocks does not move. Asking too early costs a 32-byte probe.
/// Source:  Samples only from what was sent once (Karn, RFC 6298 §3). Gain and factors: assumed.
/// Tests:   tests/host/rtt_estimator_test.cc
#pragma once

#include <algorithm>

#include "base/time.h"

namespace tributary::host {

class RttEstimator {
 public:
  /// Before the first sample.
  static constexpr Duration kInitial = milliseconds(20);
  /// Processes on busy cores answer a few milliseconds late without any loss.
  static constexpr Duration kMin = milliseconds(2);
  static constexpr Duration kMax = milliseconds(100);

  void sample(Duration time) {
    if (median_ == Duration()) {
      median_ = time;
      return;
    }
    // A sixteenth of the way up or down, whatever the distance: settles where as many samples lie
    // above as below.
    const Duration step = std::max(median_ / 16, microseconds(1));
    median_ = time > median_ ? std::min(median_ + step, time) : std::max(median_ - step, time);
  }

  /// Twice the median, within bounds. @param longest Upper bound of the caller's, as a part of the
  /// straggler timeout.
  [[nodiscard]] Duration timeout(Duration longest) const {
    const Duration estimate = median_ == Duration() ? kInitial : median_ * 2;
    return std::min(std::clamp(estimate, kMin, kMax), longest);
  }
  [[nodiscard]] Duration median() const { return median_; }

 private:
  Duration median_;
};

}  // namespace tributary::host
