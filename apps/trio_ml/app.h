// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML as a program for an engine: what to start for a packet, which timers are due, which core
/// owns a packet.
///
/// Threads: As Shard: one core.
/// Tests:   tests/apps/trio_ml/
#pragma once

#include "apps/trio_ml/aging.h"
#include "apps/trio_ml/program.h"
#include "apps/trio_ml/trio_ml.h"

namespace tributary::trio_ml {

class App {
 public:
  explicit App(Shard& shard) : shard_(shard) {}

  void begin_burst() { shard_.begin_burst(); }

  /// Starts the thread for the packet at hand.
  template <microcode::Machine M>
  void process(M& m) {
    process_packet(m, shard_);
  }

  /// Starts the timer threads whose time has come.
  template <microcode::Machine M>
  void run_timers(M& m, Instant now) {
    for (Job* job : shard_.jobs()) {
      job->aging.due(now, [&](const timers::TimerSlice& slice) {
        if (job->record.block_curr_cnt > 0) age_blocks(m, shard_, *job, slice);
      });
      job->straggling.due(now, [&](const timers::TimerSlice&) { judge_sources(m, shard_, *job); });
    }
  }
  [[nodiscard]] Instant next_due() const { return shard_.next_due(); }

  /// The core that owns a UDP payload, of `core_count` (a power of two).
  [[nodiscard]] static uint32_t owner(std::span<const std::byte> payload, uint32_t core_count) {
    if (payload.size() < microcode::TrioMlHeader::kBytes) return 0;
    return owner_of(microcode::TrioMlHeader::BlockId::load(payload.data()), core_count);
  }

 private:
  Shard& shard_;
};

}  // namespace tributary::trio_ml
