// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long to wait for an answer before sending again: smoothed time plus four deviations.
///
/// Source: RFC 6298 §2 (gains 1/8 and 1/4). Samples only from what was sent once (Karn).
/// Tests:  tests/host/rtt_estimator_test.cc
#pragma once

#include <algorithm>

#include "base/time.h"

namespace tributary::host {

class RttEstimator {
 public:
  /// Before the first sample.
  static constexpr Duration kInitial = milliseconds(20);
  /// Assumed: processes on busy cores answer up to a few milliseconds late without any loss.
  static constexpr Duration kMin = milliseconds(4);
  static constexpr Duration kMax = milliseconds(200);

  void sample(Duration time) {
    if (smoothed_ == Duration()) {
      smoothed_ = time;
      deviation_ = time / 2;
      return;
    }
    const Duration error = time > smoothed_ ? time - smoothed_ : smoothed_ - time;
    deviation_ += (error - deviation_) / 4;
    smoothed_ += (time - smoothed_) / 8;
  }

  /// @param longest Upper bound of the caller's, as a part of the straggler timeout.
  [[nodiscard]] Duration timeout(Duration longest) const {
    const Duration estimate = smoothed_ == Duration() ? kInitial : smoothed_ + deviation_ * 4;
    return std::min(std::clamp(estimate, kMin, kMax), longest);
  }
  [[nodiscard]] Duration smoothed() const { return smoothed_; }

 private:
  Duration smoothed_;
  Duration deviation_;
};

}  // namespace tributary::host
