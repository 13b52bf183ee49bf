// SPDX-License-Identifier: Apache-2.0
/// @file
/// Judges the messages "nothing listens at the aggregator's port" (ICMP port unreachable).
///
/// Model:   Anybody can forge such a message if they guess the worker's port. It counts only while
///          the aggregator is silent: the first refusal starts a time that any packet from the
///          aggregator ends. After a second refusal, the wait ends when that time has passed.
/// Threads: Owned by one thread.
/// Errors:  None.
/// Tests:   tests/host/refusal_watch_test.cc
#pragma once

#include <cstdint>

#include "base/time.h"

namespace tributary::host {

/// A worker's join ends after this long with nothing but refusals, so a server that starts
/// a moment later is still found. Assumed; forty requests.
inline constexpr Duration kRefusedJoinFor = milliseconds(2000);
/// A worker's wait for a sum ends after this long. Assumed: a living aggregator answers
/// probes every 100 ms, so four were lost.
inline constexpr Duration kRefusedSessionFor = milliseconds(400);

class RefusalWatch {
 public:
  /// Records a refusal. @param last_heard_at The time of the aggregator's last packet.
  void on_refused(Instant last_heard_at, Instant now) {
    if (count_ == 0 || first_at_ <= last_heard_at) {
      first_at_ = now;
      count_ = 0;
    }
    count_++;
  }
  /// Returns when the wait ends, if the aggregator stays silent.
  [[nodiscard]] Instant ends_at(Instant last_heard_at, Duration limit) const {
    const bool is_silent = count_ >= 2 && first_at_ > last_heard_at;
    return is_silent ? first_at_ + limit : Instant::never();
  }

 private:
  Instant first_at_;    ///< Time of the first refusal after the aggregator's last packet.
  uint32_t count_ = 0;  ///< Refusals since first_at_.
};

}  // namespace tributary::host
