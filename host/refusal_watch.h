// SPDX-License-Identifier: Apache-2.0
/// @file
/// Judges the messages "nothing listens at the aggregator's port" (ICMP port unreachable).
///
/// Model:   Anybody can forge such a message if they guess the worker's port. It counts only while
///          the aggregator is silent: the first refusal starts a time that any packet from the
///          aggregator ends, and only a later refusal can end the wait.
/// Threads: Owned by one thread.
/// Errors:  None; the caller compares the returned time with a limit.
/// Tests:   tests/host/refusal_watch_test.cc
#pragma once

#include <optional>

#include "base/time.h"

namespace tributary::host {

/// A worker that joins gives up after this long with nothing but refusals, so a server that starts
/// a moment later is still found. Assumed; forty requests.
inline constexpr Duration kRefusedJoinFor = milliseconds(2000);
/// A worker that waits for a sum gives up after this long. Assumed; a living aggregator answers
/// probes every 100 ms, and the kernel of a machine sends at least one refusal a second
/// (icmp_ratelimit of Linux).
inline constexpr Duration kRefusedSessionFor = milliseconds(1000);

class RefusalWatch {
 public:
  /// Records a refusal. @return the time since the first refusal after the aggregator's last
  /// packet.
  Duration on_refused(Instant last_heard_at, Instant now) {
    if (!first_at_ || *first_at_ <= last_heard_at) first_at_ = now;
    return now - *first_at_;
  }

 private:
  std::optional<Instant> first_at_;
};

}  // namespace tributary::host
