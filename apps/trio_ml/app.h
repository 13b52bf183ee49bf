// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML as a program for an engine: starts threads for packets and timers, and tells which core
/// owns a packet.
///
/// Threads: Belongs to one core, like its Shard.
/// Tests:   tests/apps/trio_ml/
#pragma once

#include "apps/arrival.h"
#include "apps/trio_ml/aging.h"
#include "apps/trio_ml/program.h"
#include "apps/trio_ml/session/membership_end.h"
#include "apps/trio_ml/shard.h"
#include "engine/live/live_core.h"

namespace tributary::trio_ml {

class App {
 public:
  /// The name of the program in errors.
  static constexpr const char* kName = "trio-ml";

  explicit App(Shard& shard) : shard_(shard) {}

  void begin_burst() { shard_.begin_burst(); }

  /// Runs the thread for the packet.
  template <microcode::Machine M>
  void process(M& m) {
    process_packet(m, shard_);
  }

  /// Runs the timer threads that are due. The engine calls it when the core has caught up with its
  /// packets, and sometimes before.
  template <microcode::Machine M>
  void run_timers(M& m, Instant now) {
    shard_.end_runs();
    if (now < shard_.timers_due()) return;
    for (Job* job : shard_.jobs()) {
      job->aging.due(now, [&](const timers::TimerSlice& slice) {
        note_plain_clients(*job, now);
        if (job->record.block_curr_cnt > 0) age_blocks(m, shard_, *job, slice);
      });
      if (job->session.number() == 0) job->return_idle_memory(now);
      job->straggling.due(now, [&](const timers::TimerSlice&) { judge_sources(m, shard_, *job); });
      if (shard_.index() != 0) continue;
      job->housekeeping.due(now, [&](const timers::TimerSlice&) { keep_session(m, shard_, *job); });
    }
    shard_.note_timers();
  }
  /// Tells the members that the server ends. The engine calls it after the last burst.
  template <microcode::Machine M>
  void stop(M& m) {
    shard_.end_runs();
    if (shard_.index() != 0) return;
    for (Job* job : shard_.jobs()) end_memberships(m, shard_, *job, Reason::kServerStopped);
  }
  [[nodiscard]] Instant next_due() const { return shard_.next_due(); }

  /// Returns the core that owns a packet. Core 0 owns packets that are too short.
  /// @param core_count A power of two.
  [[nodiscard]] static uint32_t owner(std::span<const std::byte> packet, bool is_frame,
                                      uint32_t core_count) {
    const uint32_t offset = is_frame ? apps::frame_payload_offset(packet) : 0;
    if (packet.size() < offset + wire::TrioMlHeader::kBytes) return 0;
    return owner_of(wire::TrioMlHeader::BlockId::load(packet.data() + offset), core_count);
  }

 private:
  Shard& shard_;
};

}  // namespace tributary::trio_ml

// Only app.cc compiles the loop of a live core with this program in it. Otherwise each file that
// uses the loop would compile its own copy with its own inlining, and the linker would keep any one
// of them: the same loop was a third slower in one program than in another.
extern template class tributary::engine::LiveCore<tributary::trio_ml::App>;
