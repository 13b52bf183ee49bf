// SPDX-License-Identifier: Apache-2.0
/// @file
/// The workers of the chaos: one `tributary worker --verify` process for each rank, and their
/// progress.
///
/// Model:   Workers print their progress every kReportEvery. turn() reads it and notices the ends
///          of processes; times are those of the turn.
/// Threads: One, which also starts the processes.
/// Errors:  A process that cannot be started. A worker's own error is in its RankState.
/// Tests:   tests/bench/chaos/chaos_test.cc
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "auth/mode.h"
#include "base/child_process.h"
#include "base/result.h"

namespace tributary::chaos {

using Clock = std::chrono::steady_clock;

/// Also the resolution of all times.
inline constexpr std::chrono::milliseconds kReportEvery{5};

struct GroupConfig {
  std::string program;  ///< Path of `tributary`.
  std::string server;   ///< HOST:PORT.
  uint32_t workers = 0;
  uint64_t elements = 0;
  uint32_t deadline_s = 0;
  auth::Mode auth = auth::Mode::kNone;
  std::string secret_path;
  /// Words before each rank's command, as of `ip netns exec`. Shape [workers].
  std::vector<std::vector<std::string>> where;
};

/// One rank's process since its last start.
struct RankState {
  std::unique_ptr<ChildProcess> process;
  uint64_t done = 0;    ///< All-reduces.
  uint64_t wrong = 0;   ///< Elements.
  uint64_t before = 0;  ///< `done` when mark() was called.
  bool ended = false;   ///< Also before its first start.
  Clock::time_point ended_at;
  std::string error;  ///< Its last output and its exit status, if it ended without success.
};

class RankGroup {
 public:
  explicit RankGroup(GroupConfig config);

  /// Starts a rank's process. @pre Its previous one has ended.
  Result<void> start(uint32_t rank);
  void signal(uint32_t rank, int number);
  void signal_all(int number);
  /// Waits for output, at most a few milliseconds, and updates the states.
  void turn();
  /// Begins to watch for progress: has_progressed() compares with this state.
  void mark();

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  [[nodiscard]] RankState& operator[](uint32_t rank) { return ranks_[rank]; }
  /// Tells whether each rank has finished an all-reduce since mark(), or since it was started.
  [[nodiscard]] bool has_progressed() const;
  [[nodiscard]] bool has_ended() const;
  [[nodiscard]] bool any_ended() const;
  /// Return sums over all processes so far.
  [[nodiscard]] uint64_t reductions() const { return reductions_; }
  [[nodiscard]] uint64_t wrong() const { return wrong_; }

 private:
  void read(RankState& rank);

  const GroupConfig config_;
  std::vector<RankState> ranks_;
  uint64_t reductions_ = 0;
  uint64_t wrong_ = 0;
};

}  // namespace tributary::chaos
