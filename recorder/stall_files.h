// SPDX-License-Identifier: Apache-2.0
/// @file
/// Limits the recordings of stalls, in servers and in workers.
///
/// Threads: One.
/// Tests:   tests/server/recording/stall_watch_test.cc, tests/host/worker_recorder_test.cc
#pragma once

#include "base/time.h"

namespace tributary::recorder {

/// A block that has waited this long is a stall, unless a setting says otherwise.
inline constexpr Duration kStallAfter = seconds(5);
/// At most one file in this time, however many ranks stall. Assumed: a person looks at one.
inline constexpr Duration kStallFileEvery = seconds(30);

class StallFiles {
 public:
  /// Tells whether a stall at `now` gets a file, and counts that file.
  [[nodiscard]] bool take(Instant now) {
    if (has_file_ && now - file_at_ < kStallFileEvery) return false;
    has_file_ = true;
    file_at_ = now;
    return true;
  }

 private:
  bool has_file_ = false;
  Instant file_at_;
};

}  // namespace tributary::recorder
