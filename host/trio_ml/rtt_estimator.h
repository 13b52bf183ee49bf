// SPDX-License-Identifier: Apache-2.0
/// @file
/// Estimates the time to a result, and from it the timeout after which a worker probes a block.
///
/// Model:   A result takes the network's time and the wait for the slowest peer. After a loss it
///          also takes that peer's repair. A mean (RFC 6298) would include these repairs, and later
///          repairs would start ever later. The estimate follows the median, which the minority of
///          repaired blocks does not move. A probe that is sent too early costs 32 bytes.
/// Source:  Samples only from packets sent once (Karn, RFC 6298 §3). Gain and factors: assumed.
/// Tests:   tests/host/trio_ml/rtt_estimator_test.cc
#pragma once

#include <algorithm>

#include "base/time.h"

namespace tributary::host {

class RttEstimator {
 public:
  /// The timeout before the first sample.
  static constexpr Duration kInitial = milliseconds(20);
  /// Processes on busy cores answer a few milliseconds late without any loss, so no timeout is
  /// shorter.
  static constexpr Duration kMin = milliseconds(2);
  static constexpr Duration kMax = milliseconds(100);

  /// Adds the time to a result that is certain to answer the only packet sent for it.
  void sample(Duration time) {
    if (median_ == Duration()) {
      median_ = time;
      return;
    }
    // Move by a sixteenth of the median, up or down, for any distance. This settles where as many
    // samples are above as below.
    const Duration step = std::max(median_ / 16, microseconds(1));
    median_ = time > median_ ? std::min(median_ + step, time) : std::max(median_ - step, time);
  }

  /// Returns twice the median, at least kMin, at most kMax and `longest`.
  [[nodiscard]] Duration timeout(Duration longest) const {
    const Duration estimate = median_ == Duration() ? kInitial : median_ * 2;
    return std::min(std::clamp(estimate, kMin, kMax), longest);
  }
  [[nodiscard]] Duration median() const { return median_; }

 private:
  Duration median_;
};

}  // namespace tributary::host
