// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures one flow and decides whether it is a culprit.
///
///         above         above for detect_time + delay     below for recover_time, or timeout
///   kNormal ----> kSuspicious ----------------> kCulprit -----------------------------> kNormal
///
/// Model:   A window lasts from one judge() to the next; its rate is its packets over its length.
///          A suspicious flow that is below its bandwidth for at most quiet_time stays suspicious.
///          Pulses with longer pauses escape, as in SCFD, if each is shorter than detect_time.
///          Source: SCFD's flow-detect-time and so on.
/// Threads: Owned by the owner of its record.
/// Tests:   tests/apps/guard/flow_tracker_test.cc
#pragma once

#include <cstdint>

#include "base/time.h"

namespace tributary::guard {

enum class Phase : uint8_t { kNormal, kSuspicious, kCulprit };

/// A change of phase that judge() made.
enum class Change : uint8_t { kNone, kDetected, kRecovered, kTimedOut };

/// The terms of a judgement.
struct Terms {
  uint32_t pps = 0;
  bool may_suspect = true;  ///< False: no suspicion begins yet.
  Duration window_min;      ///< Shortest window to judge; the rate of a shorter one means little.
  Duration detect_time;     ///< Includes the delay of the level.
  Duration quiet_time;      ///< Shortest time below the bandwidth that ends a suspicion.
  Duration recover_time;
  Duration timeout_time;  ///< Negative: culprits do not time out.
};

class FlowTracker {
 public:
  /// Begins the first window.
  void begin(Instant now) { window_began_at_ = now; }
  /// Counts a packet.
  void count() { packets_++; }
  /// Takes back one packet of this window, because the sender has proved to be real.
  void explain() { packets_ -= packets_ > 0 ? 1 : 0; }
  /// Ends a suspicion.
  void forgive(Instant now) {
    if (phase_ != Phase::kSuspicious) return;
    reset();
    begin(now);
  }
  /// Counts a packet that was dropped, or would be in a dry run.
  void count_drop() { dropped_++; }

  /// Ends the window, begins the next one, and changes the phase.
  Change judge(const Terms& terms, Instant now);

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool is_culprit() const { return phase_ == Phase::kCulprit; }
  /// Return times and counts since the flow last left kNormal.
  [[nodiscard]] Instant above_since() const { return above_since_; }
  [[nodiscard]] Instant above_last() const { return above_last_; }
  [[nodiscard]] uint64_t pps_max() const { return pps_max_; }
  [[nodiscard]] uint64_t dropped() const { return dropped_; }

 private:
  Change judge_culprit(const Terms& terms, bool above, Instant now);
  void reset() { *this = FlowTracker(); }

  Phase phase_ = Phase::kNormal;
  uint64_t packets_ = 0;  ///< Packets of the current window.
  Instant window_began_at_;
  Instant above_since_;
  Instant above_last_;
  Instant culprit_since_;
  uint64_t pps_max_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace tributary::guard
