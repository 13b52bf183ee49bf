// SPDX-License-Identifier: Apache-2.0
#include "apps/guard/flow_tracker.h"

#include <algorithm>

namespace tributary::guard {
namespace {

/// Bounds a window's length and a window's packets, so that no product below overflows.
constexpr int64_t kWindowNsMax = 3'600'000'000'000;
constexpr uint64_t kWindowPacketsMax = 10'000'000'000;

}  // namespace

Change FlowTracker::judge(const Terms& terms, Instant now) {
  const int64_t window_ns =
      std::clamp(in_nanoseconds(now - window_began_at_), int64_t{0}, kWindowNsMax);
  if (window_ns == 0 || nanoseconds(window_ns) < terms.window_min) return Change::kNone;
  const uint64_t pps = std::min(packets_, kWindowPacketsMax) * kNanosecondsPerSecond /
                       static_cast<uint64_t>(window_ns);
  const bool above = pps > terms.pps && (terms.may_suspect || phase_ != Phase::kNormal);
  const Instant window_began_at = window_began_at_;
  packets_ = 0;
  window_began_at_ = now;
  if (above) {
    if (phase_ == Phase::kNormal) {
      phase_ = Phase::kSuspicious;
      above_since_ = window_began_at;
    }
    above_last_ = now;
    pps_max_ = std::max(pps_max_, pps);
  }
  if (phase_ == Phase::kCulprit) return judge_culprit(terms, above, now);
  if (phase_ == Phase::kNormal) return Change::kNone;
  if (above && now - above_since_ >= terms.detect_time) {
    phase_ = Phase::kCulprit;
    culprit_since_ = now;
    return Change::kDetected;
  }
  if (!above && now - above_last_ > terms.quiet_time) {
    reset();
    begin(now);
  }
  return Change::kNone;
}

Change FlowTracker::judge_culprit(const Terms& terms, bool above, Instant now) {
  Change change = Change::kNone;
  if (!above && now - above_last_ >= terms.recover_time) {
    change = Change::kRecovered;
  } else if (terms.timeout_time >= Duration() && now - culprit_since_ >= terms.timeout_time) {
    change = Change::kTimedOut;
  }
  if (change != Change::kNone) {
    reset();
    begin(now);
  }
  return change;
}

}  // namespace tributary::guard
