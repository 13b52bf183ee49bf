// SPDX-License-Identifier: Apache-2.0
/// @file
/// The newest all-reduces of a job, and how much later than the first source each other began them.
///
/// Model:   Workers report when they begin an all-reduce (host/trio_ml/begin_sampling.h). An
///          all-reduce begins with the first report of it. A source that has not begun it is late
///          up to the present while blocks lack it.
/// Bounds:  kAllReducesMax all-reduces, in the order of their beginnings.
/// Threads: Owned by one.
/// Tests:   tests/server/control/begin_history_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "server/job_snapshot.h"

namespace tributary::control {

/// All-reduces that are kept. As many as a drawing has columns.
inline constexpr uint32_t kAllReducesMax = 120;

/// The lateness of sources in all-reduces, by ascending number. All-reduces that a source has left
/// out of its reports are not among them.
struct BeginTable {
  std::vector<uint32_t> numbers;
  /// Shape [sources][numbers]. Not set: the source reports no beginnings, or nobody waits for it.
  std::vector<std::vector<std::optional<Duration>>> lateness;
};

class BeginHistory {
 public:
  /// Takes the beginnings that are new since the last call. A new session forgets the older ones.
  void add(const server::JobSnapshot& job, Instant now);

  [[nodiscard]] BeginTable table() const;

 private:
  struct AllReduce {
    uint32_t number;
    Instant first_at;
    std::vector<std::optional<Instant>> begun_at;  ///< Shape [sources].
  };
  struct Source {
    Instant seen_until{};     ///< Time of the newest beginning that was taken.
    uint32_t number_max = 0;  ///< The highest number that it has begun; 0: it has reported none.
    bool lacked = false;      ///< A block in progress lacks it.
  };
  void adopt_session(const server::JobSnapshot& job, Instant now);
  void take(uint32_t source, const trio_ml::Begin& begin);
  [[nodiscard]] bool is_left_out(const AllReduce& all_reduce) const;
  [[nodiscard]] std::optional<Duration> lateness(const AllReduce& all_reduce, size_t source) const;

  uint32_t session_ = 0;
  bool between_sessions_ = true;  ///< No session ran at the last call.
  Instant looked_at_;             ///< Time of the last call.
  std::vector<Source> sources_;
  std::deque<AllReduce> all_reduces_;  ///< In the order of their first reports.
};

}  // namespace tributary::control
