// SPDX-License-Identifier: Apache-2.0
/// @file
/// Judges whether an aggregator that does not answer is lost.
///
/// Model:   An aggregator answers every question at once, also while it waits for a straggler. It
///          is lost if kQuestions questions, each a step after the one before, have no answer for a
///          step. The steps make up the limit. Questions in quick succession count as one, so a
///          worker that got no core for a while does not blame the aggregator for it.
/// Threads: Owned by one thread.
/// Errors:  None.
/// Tests:   tests/host/silence_watch_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace tributary::host {

/// Silence after which one of several aggregators counts as lost. It equals kAliveFor
/// (session_end.cc), and is shorter than the 3.5 s after which an aggregator treats a worker as
/// silent. Assumed: load does not make an aggregator miss some twenty questions in a row.
inline constexpr Duration kSilentSessionFor = milliseconds(2000);
/// Silence after which an aggregator that a directory has named counts as lost during the join.
/// Source: server/directory.h. The directory asks every 200 ms and leaves an aggregator out after a
/// second, so it has done so by then.
inline constexpr Duration kSilentListedFor = milliseconds(1300);
/// Shortest limit. Assumed; a worker asks every 100 ms.
inline constexpr Duration kSilentLeast = milliseconds(100);

class SilenceWatch {
 public:
  static constexpr int64_t kQuestions = 4;

  /// Records a question. @param last_heard_at The time of the aggregator's last packet.
  /// @param limit Not 0.
  void on_asked(Instant last_heard_at, Duration limit, Instant now) {
    if (count_ == 0 || first_at_ <= last_heard_at) {
      first_at_ = now;
      count_ = 0;
    } else if (now - counted_at_ < limit / kQuestions) {
      return;
    }
    counted_at_ = now;
    count_ = std::min(count_ + 1, kQuestions);
  }
  /// Returns the time of the first question after the aggregator's last packet.
  [[nodiscard]] Instant silent_since() const { return first_at_; }
  /// Returns when the aggregator is lost, if it stays silent.
  [[nodiscard]] Instant ends_at(Instant last_heard_at, Duration limit) const {
    const bool is_silent = count_ == kQuestions && first_at_ > last_heard_at;
    return is_silent ? counted_at_ + limit / kQuestions : Instant::never();
  }

 private:
  Instant first_at_;    ///< The first question after the aggregator's last packet.
  Instant counted_at_;  ///< The last question that counts.
  int64_t count_ = 0;   ///< Questions that count since then.
};

}  // namespace tributary::host
