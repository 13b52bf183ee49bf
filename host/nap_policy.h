// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decides how long a channel's thread may leave results unread, so that one wake-up takes several
/// trains of packets.
///
/// Model:   On a slow link a whole window waits in queues. Leaving results unread for a sixth of a
///          window's time costs nothing; with the slowest peer's nap that is up to a third. After
///          a pause the policy measures windows without naps: it skips one, which a late rank may
///          delay, and takes the shortest time of four. On fast links it is too short for a nap.
/// Source:  docs/notes/race.md has the measurements.
/// Threads: Owned by one thread.
/// Errors:  None.
/// Tests:   tests/host/nap_policy_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "host/all_reduce.h"

namespace tributary::host {

class NapPolicy {
 public:
  /// A nap takes this part of the time of a window.
  static constexpr int64_t kPerWindow = 6;
  /// A shorter nap does not pay. Windows of 5.4 ms take several times as long as those of
  /// processes that share two cores without a slow link.
  static constexpr Duration kMin = microseconds(900);
  /// Assumed: twice the nap for the 12 ms that a worker's windows take on a link of 1 Gbit/s.
  static constexpr Duration kMax = milliseconds(4);
  /// Windows that are measured, and those from one measurement to the next. Assumed.
  static constexpr uint32_t kMeasured = 4;
  static constexpr uint32_t kMeasuredEvery = 256;
  /// Naps that fit into a straggler timeout, with mitigation: a contribution that waits for a nap
  /// is not late. Assumed, as for repairs (loss_repair.cc).
  static constexpr int64_t kPerTimeout = 8;

  /// Records that the channel begins to work after a pause.
  void begin() { phase_ = Phase::kFirst; }

  /// Decides at a wake-up that has read all results.
  /// @param window  Positions in flight; 0 before the join.
  /// @param straggler_timeout  0: no mitigation.
  /// @return the nap; zero: sleep until the next packet.
  [[nodiscard]] Duration next(const Progress& progress, uint32_t window, Duration straggler_timeout,
                              Instant now) {
    if (window == 0) return {};  // The rank has not joined.
    advance(progress.heard, window, now);
    // The last results of a tensor do not wait.
    const bool is_early = progress.submitted >= progress.heard + uint64_t{2} * window;
    if (phase_ != Phase::kDecided || !is_early) return {};
    return straggler_timeout > Duration() ? std::min(nap_, straggler_timeout / kPerTimeout) : nap_;
  }

 private:
  enum class Phase : uint8_t { kFirst, kSecond, kMeasuring, kDecided };

  void advance(uint64_t heard, uint32_t window, Instant now) {
    const uint64_t came = heard - heard_;
    switch (phase_) {
      case Phase::kFirst:
        return enter(Phase::kSecond, heard, now);
      case Phase::kSecond:
        if (came < window) return;
        measured_ = 0;
        nap_ = kMax;
        return enter(Phase::kMeasuring, heard, now);
      case Phase::kMeasuring:
        if (came < window) return;
        nap_ =
            std::min(nap_, (now - entered_at_) * window / static_cast<int64_t>(came) / kPerWindow);
        if (++measured_ < kMeasured) return enter(Phase::kMeasuring, heard, now);
        if (nap_ < kMin) nap_ = Duration();
        return enter(Phase::kDecided, heard, now);
      case Phase::kDecided:
        if (came >= uint64_t{kMeasuredEvery} * window) phase_ = Phase::kFirst;
    }
  }
  void enter(Phase phase, uint64_t heard, Instant now) {
    phase_ = phase;
    heard_ = heard;
    entered_at_ = now;
  }

  Phase phase_ = Phase::kFirst;
  uint64_t heard_ = 0;  ///< When the phase began.
  Instant entered_at_;
  uint32_t measured_ = 0;  ///< Windows.
  Duration nap_;           ///< By the windows measured so far; 0: none.
};

}  // namespace tributary::host
