// SPDX-License-Identifier: Apache-2.0
/// @file
/// The recording end of one thread: a ring, and the runs of blocks that are still growing.
///
/// Model:   Packets come in trains of consecutive blocks. add() lengthens the open run of its kind
///          if the block continues it; otherwise it puts the run into the ring and begins another.
///          So a train costs one event, and a packet one comparison and one store.
///          The owner calls flush() between two bursts, so that no run is older than its burst.
/// Threads: One thread writes. open_run() and the counts may be read by any thread.
/// Memory:  Taken in the constructor.
/// Tests:   tests/recorder/writer_test.cc
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/time.h"
#include "recorder/event.h"
#include "recorder/ring.h"

namespace tributary::recorder {

class alignas(128) Writer {
 public:
  /// @param capacity Events in the ring; a power of two.
  /// @param track    See SectionHeader.
  explicit Writer(uint32_t capacity, uint32_t track = 0) : track_(track), ring_(capacity) {}

  /// Records that something happened to a block. @pre `kind` is a run of blocks.
  void add(Kind kind, uint32_t job, uint32_t rank, uint32_t block, Instant now) {
    Run& run = runs_[static_cast<uint32_t>(kind)];
    const uint64_t key = key_of(job, rank, block);
    // Relaxed, here and below: this thread is the only writer, and a reader expects torn runs.
    if (run.next.load(std::memory_order_relaxed) == key) [[likely]] {
      run.next.store(key + 1, std::memory_order_relaxed);
    } else {
      begin(kind, key, now);
    }
  }

  /// Records a single event. Runs that are open come before it.
  [[gnu::cold]] void note(Event event, Instant now) {
    flush();
    event.at_ns = in_nanoseconds(now.since_start());
    ring_.put(to_words(event));
  }

  /// Ends the open runs.
  void flush() {
    for (; open_kinds_ != 0; open_kinds_ &= open_kinds_ - 1) {
      end(static_cast<Kind>(std::countr_zero(open_kinds_)));
    }
  }

  /// Counts an event that was left out to keep the others.
  void leave_out() {
    // Relaxed: a count for people, with one writer.
    left_out_.store(left_out_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  [[nodiscard]] uint32_t track() const { return track_; }
  [[nodiscard]] const Ring& ring() const { return ring_; }
  [[nodiscard]] uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }
  /// Returns the open run of a kind; its kind is kNone if there is none. If the writer changes it
  /// meanwhile, the copy may mix two runs, or be in the ring as well.
  [[nodiscard]] Event open_run(Kind kind) const;

 private:
  /// The blocks of a run have the keys first … next - 1.
  struct Run {
    std::atomic<uint64_t> next{kNoKey};
    std::atomic<uint64_t> first{kNoKey};
    std::atomic<int64_t> at_ticks{0};
  };
  static constexpr uint64_t kNoKey = UINT64_MAX;
  // The bits between block and rank stay 0, so no block continues a run that ends at 2^32 - 1.
  static constexpr uint32_t kRankShift = 36;
  static constexpr uint32_t kJobShift = 52;

  static constexpr uint64_t key_of(uint32_t job, uint32_t rank, uint32_t block) {
    return uint64_t{job} << kJobShift | uint64_t{rank} << kRankShift | block;
  }
  static constexpr Event event_of(Kind kind, uint64_t first, uint64_t next, int64_t at_ticks) {
    return {.at_ns = in_nanoseconds(Duration::from_ticks(at_ticks)),
            .kind = kind,
            .job = static_cast<uint16_t>(first >> kJobShift),
            .rank = static_cast<uint16_t>(first >> kRankShift),
            .block = static_cast<uint32_t>(first),
            .count = static_cast<uint32_t>(next - first)};
  }
  /// noinline: keeps the packet path small.
  [[gnu::noinline]] void begin(Kind kind, uint64_t key, Instant now);
  void end(Kind kind);

  std::array<Run, kRunKinds> runs_;
  const uint32_t track_;
  uint32_t open_kinds_ = 0;  ///< Bit i: runs_[i] is open.
  std::atomic<uint64_t> left_out_{0};
  Ring ring_;
};

}  // namespace tributary::recorder
