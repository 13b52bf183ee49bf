// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the ranks that others wait for, and gives one sentence of advice for each.
///
/// Model:   A source is waited for if a block lacks it for kWaitShown, if it has not joined while
///          others have, or if its job goes on without it. While joins wait because plain
///          packets use the job, the senders of these have rows, too.
/// Threads: Any.
/// Tests:   tests/server/who_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/snapshot.h"

namespace tributary::server {

/// Shorter waits are usual between ranks that compute.
inline constexpr Duration kWaitShown = milliseconds(100);
/// A worker sends a message at least every second, so a rank that is silent for longer has stopped,
/// or its packets are lost. Assumed: half a second of delay.
inline constexpr Duration kSilenceShown = milliseconds(1500);

struct Wait {
  /// Stands for the upper aggregator.
  static constexpr uint32_t kUpstream = UINT32_MAX;

  uint32_t job = 0;                 ///< Id of the channel that waits.
  uint32_t channel_of = 0;          ///< Id of the operator's job.
  uint32_t source = kUpstream;      ///< Index of the missing source in the job, or kUpstream.
  std::optional<uint32_t> block{};  ///< The oldest block that waits; none before a session.
  std::vector<uint32_t> missing{};  ///< Ranks: one, or all below a lower aggregator.
  std::optional<Duration> since{};  ///< Time since the block's last contribution.
  std::optional<Duration> last_heard{};
  std::string address{};  ///< Sender address of the last message; empty: unknown.
  std::string advice{};
};

/// Returns the waits of all jobs in order, one for each source.
[[nodiscard]] std::vector<Wait> find_waits(const Snapshot& snapshot);

}  // namespace tributary::server
