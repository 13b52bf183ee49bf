// SPDX-License-Identifier: Apache-2.0
/// @file
/// Events that a rank announces to its program while it reduces: waits, degraded results and
/// stragglers.
///
/// Units:   Ranks of the job; blocks of one tensor's part on one channel.
/// Threads: Plain values without shared state.
/// Tests:   tests/host/worker_event_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "host/all_reduce.h"

namespace tributary::host {

/// A wait is announced after this time. Assumed: ranks that compute the same differ by less.
inline constexpr Duration kWaitAnnouncedAfter = seconds(1);
/// Shortest time between the announcements of two waits.
inline constexpr Duration kWaitsAnnouncedEvery = seconds(10);
/// An aggregator that a block waits for is named after this silence (host/silence_watch.h). Its
/// questions are 0.1 s apart at most, so the name comes within 0.9 s of its last packet. Assumed: a
/// busy server answers one of five questions in time.
inline constexpr Duration kSilenceAnnouncedAfter = milliseconds(500);

struct WorkerEvent {
  enum class Kind : uint8_t {
    /// A block has waited for kWaitAnnouncedAfter, once for each wait; or the aggregator has been
    /// silent for kSilenceAnnouncedAfter, once for each silence.
    kWaiting,
    kDegraded,   ///< An all-reduce has blocks that lack a rank, or are imprecise.
    kStraggler,  ///< The aggregator stopped waiting for these ranks.
    kReturned,   ///< The aggregator waits for them as before.
  };
  Kind kind = Kind::kWaiting;
  SourceSet ranks{};    ///< Those waited for, missing, or lagging; empty: unknown.
  uint64_t blocks = 0;  ///< kDegraded: such blocks of the tensor.
  Duration waited{};    ///< Length of the wait so far, for kWaiting.
  std::string text;     ///< One line for people.
};

/// Decides which waits are announced.
class WaitAnnouncer {
 public:
  /// Records that the wait of the oldest position is announced now.
  void note(uint64_t position, Instant now) {
    said_ = position;
    next_at_ = now + kWaitsAnnouncedEvery;
  }
  /// Returns when the wait of the oldest position is to be announced; never if it was.
  [[nodiscard]] Instant due_at(uint64_t position, Instant first_sent_at) const {
    if (said_ == position) return Instant::never();
    const Instant waited_at = first_sent_at + kWaitAnnouncedAfter;
    return waited_at < next_at_ ? next_at_ : waited_at;
  }

 private:
  uint64_t said_ = UINT64_MAX;
  Instant next_at_;
};

}  // namespace tributary::host
