// SPDX-License-Identifier: Apache-2.0
/// @file
/// N periodic timer threads that share one scan (Trio paper §5, "Multi-thread scanning of large
/// hash tables"). All have the same period, each starts period/N after the one before, and each
/// visits 1/N of the records. So every record is visited once a period, in small even portions.
///
/// Shapes:  Thread i of N visits records [i * R / N, (i + 1) * R / N) of R, at the times
///          start + (i + 1) * period / N + k * period for k = 0, 1, … .
///          Divisions round down, so all sums of shares are exact: no phase drifts.
/// Threads: Owned by one thread, which calls due() whenever next_due() is reached.
/// Errors:  create() refuses values out of range.
/// Memory:  A few words, whatever N is.
/// Tests:   tests/timers/periodic_timers_test.cc
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace tributary::timers {

/// One run of one timer thread.
struct TimerSlice {
  uint32_t thread = 0;  ///< Index, 0 to N - 1.
  uint32_t begin = 0;   ///< First record.
  uint32_t end = 0;     ///< One past the last; equal to `begin` if the slice is empty.
  Instant due_at;       ///< When it should run; at most the `now` passed to due().
};

/// Decides when timer threads run and over which records; the visitor decides the rest. The record
/// store's scan_idle() reports a record that was last referenced at t as idle in
/// (t + period, t + 2 * period], plus any delay of due() (Trio paper §6.2, Figure 14). If a
/// reference and a scan have the same instant, the scan counts as first.
///
/// The live engine's loop calls due() between bursts, or the virtual clock does. Nothing here reads
/// a clock.
class PeriodicTimers {
 public:
  struct Config {
    uint32_t thread_count = 100;         ///< N. Default: Trio paper §6.1.
    Duration period = milliseconds(10);  ///< Period of each thread. Default: Trio paper §6.1.
    uint32_t record_count = 0;           ///< R, the slots of the store; may be 0.
  };

  /// The most threads. Source: assumed, ten times the paper's "hundreds of threads" (§5).
  static constexpr uint32_t kThreadCountMax = 10'000;

  /// The first thread is due at start + period / N, the last at start + period. Refuses a thread
  /// count outside 1 to kThreadCountMax, and a period of fewer ticks than threads.
  [[nodiscard]] static Result<PeriodicTimers> create(const Config& config, Instant start);

  /// Calls `visit(TimerSlice)` for every due thread, in the order of their times. If the caller is
  /// late by several periods, each thread runs once, for its latest time, and keeps its phase. The
  /// skipped runs are counted.
  ///
  /// @param now   May lie before an earlier call's `now`; then nothing is due.
  /// @param visit Must not call due().
  /// @return The number of runs, at most N.
  template <class F>
  uint32_t due(Instant now, F&& visit) {
    if (now < next_due_) return 0;
    skip_overdue(now);
    uint32_t runs = 0;
    for (; next_due_ <= now; runs++) {
      const TimerSlice slice = next_slice();
      advance();
      visit(slice);
    }
    return runs;
  }

  /// Returns when the next thread is due.
  [[nodiscard]] Instant next_due() const { return next_due_; }

  /// Returns the runs skipped because due() was called more than a period late.
  [[nodiscard]] uint64_t skipped_runs() const { return skipped_runs_; }
  [[nodiscard]] const Config& config() const { return config_; }

 private:
  PeriodicTimers(const Config& config, Instant start);

  /// Returns the thread's first time after the start of a round, in (0, period].
  [[nodiscard]] Duration phase_of(uint32_t thread) const;
  [[nodiscard]] TimerSlice next_slice() const;
  /// Advances to the next thread, or to the first thread of the next round.
  void advance();
  /// Skips all but the last N runs that are due by `now`.
  void skip_overdue(Instant now);

  Config config_;
  Instant round_start_;       ///< A round is one run of each thread, in (round_start, + period].
  uint32_t next_thread_ = 0;  ///< The thread that is due next in this round.
  Instant next_due_;          ///< round_start_ + phase_of(next_thread_).
  uint64_t skipped_runs_ = 0;
};

}  // namespace tributary::timers
