// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the waits that have become stalls, each once, and the sessions that silent ranks have
/// ended.
///
/// Model:   A stall is a block that has waited for a rank for `after`. It ends when the job stops
///          waiting for that rank; the next one is another stall. By default a silent rank ends its
///          session before a block has waited that long.
/// Threads: One at a time.
/// Memory:  One entry for each rank that is waited for.
/// Tests:   tests/server/recording/stall_watch_test.cc
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "recorder/stall_files.h"
#include "server/who.h"

namespace tributary::server {

class StallWatch {
 public:
  /// @param after 0: no wait is a stall, and no silence is found.
  explicit StallWatch(Duration after) : after_(after) {}

  /// Compares the waits with those of the last call. @return the new stalls.
  [[nodiscard]] std::vector<Wait> find_new(std::span<const Wait> waits);
  /// Tells whether silent ranks have ended sessions since the last call.
  /// @param ended Times since the server's start, Outcome::kSilenceEnded.
  [[nodiscard]] bool has_silence_ended(uint64_t ended) {
    const bool is_more = ended > std::exchange(silence_ended_, ended);
    return is_more && after_ != Duration();
  }
  /// Tells whether a stall or a silence at `now` gets a file, and counts that file.
  [[nodiscard]] bool take_file(Instant now) { return files_.take(now); }

 private:
  /// A job and the ranks that it waits for.
  using Key = std::pair<uint32_t, std::vector<uint32_t>>;

  const Duration after_;
  std::set<Key> known_;
  uint64_t silence_ended_ = 0;
  recorder::StallFiles files_;
};

}  // namespace tributary::server
