// SPDX-License-Identifier: Apache-2.0
/// @file
/// The recording end of one thread: a ring, and the runs of blocks that are still growing.
///
/// Model:   Packets come in trains of consecutive blocks. A block that continues a run lengthens
///          it, which costs a comparison and an addition. Any other block begins a run. flush()
///          puts the runs into the ring, one event each. The owner calls it when it has caught up
///          with its packets. No run begins while an open one is older than kRunAgeMax, so the
///          order of two events is exact to that time.
/// Threads: One thread writes. begun_run() and the counts may be read by any thread.
/// Memory:  Taken in the constructor.
/// Tests:   tests/recorder/writer_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "recorder/event.h"
#include "recorder/ring.h"

namespace tributary::recorder {

/// A run of consecutive blocks that grows. Its owner keeps it where access is cheap, such as beside
/// the state of a source.
class BlockRun {
 public:
  /// Lengthens the run if the block continues it. @return whether it does.
  [[nodiscard]] bool take(uint32_t block) {
    if (next_ != block) return false;
    next_++;
    return true;
  }
  /// Begins a run that is not recorded, so that take() stays on its fast path without a recorder.
  void begin_unrecorded(uint32_t block) { next_ = uint64_t{block} + 1; }

 private:
  friend class Writer;
  static constexpr uint64_t kNoBlock = UINT64_MAX;

  uint64_t next_ = kNoBlock;  ///< The block that continues the run; up to 2^32, so none may.
  uint32_t first_ = 0;
  Kind kind_ = Kind::kNone;  ///< kNone: no writer has the run.
  uint16_t job_ = 0;
  uint16_t rank_ = kNoRank;
  Instant at_;
};

class alignas(128) Writer {
 public:
  /// @param capacity Events in the ring; a power of two.
  /// @param track    See SectionHeader.
  explicit Writer(uint32_t capacity, uint32_t track = 0) : track_(track), ring_(capacity) {}

  /// Records that something happened to a block that does not continue the owner's run: ends the
  /// run and begins another. `run` must stay at its address until flush().
  /// noinline: keeps the packet path small.
  [[gnu::noinline]] void begin(BlockRun& run, Kind kind, uint32_t job, uint32_t rank,
                               uint32_t block, Instant now);
  /// Records that something happened to a block, with the writer's own run of this kind.
  void add(Kind kind, uint32_t job, uint32_t rank, uint32_t block, Instant now) {
    BlockRun& run = own_runs_[static_cast<uint32_t>(kind)];
    if (run.job_ == job && run.rank_ == rank && run.take(block)) return;
    begin(run, kind, job, rank, block, now);
  }

  /// Records a single event. Runs that are open come before it.
  [[gnu::cold]] void note(Event event, Instant now) {
    flush();
    event.at_ns = in_nanoseconds(now.since_start());
    ring_.put(to_words(event));
  }

  /// Ends all runs.
  void flush();
  /// The age at which open runs end before another begins. Assumed: shorter than a delay worth
  /// finding in a recording, and several bursts of small packets.
  static constexpr Duration kRunAgeMax = microseconds(10);

  /// Counts an event that was left out to keep the others.
  void leave_out() {
    // Relaxed: a count for people, with one writer.
    left_out_.store(left_out_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  [[nodiscard]] uint32_t track() const { return track_; }
  [[nodiscard]] const Ring& ring() const { return ring_; }
  [[nodiscard]] uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }
  /// Returns the run of a kind that began last, with its first block only; its kind is kNone after
  /// flush(). If the writer begins another one meanwhile, the copy may mix the two.
  [[nodiscard]] Event begun_run(Kind kind) const;

 private:
  /// Most runs that may be open at once. One more ends them all.
  static constexpr uint32_t kRunsMax = 64;
  /// The run of a kind that began last, for readers in other threads.
  struct Begun {
    std::atomic<uint64_t> name{kNoName};  ///< Job, rank and block.
    std::atomic<int64_t> at_ticks{0};
  };
  static constexpr uint64_t kNoName = UINT64_MAX;  // No job is 0xffff.

  void end(BlockRun& run);

  std::array<BlockRun, kRunKinds> own_runs_;
  std::array<BlockRun*, kRunsMax>
      runs_{};  ///< The first run_count_ are those to flush, in their order.
  uint32_t run_count_ = 0;
  Instant oldest_at_;  ///< The beginning of runs_[0], if there is one.
  const uint32_t track_;
  std::array<Begun, kRunKinds> begun_;
  std::atomic<uint64_t> left_out_{0};
  Ring ring_;
};

}  // namespace tributary::recorder
