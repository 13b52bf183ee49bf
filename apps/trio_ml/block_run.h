// SPDX-License-Identifier: Apache-2.0
/// @file
/// Questions about a run of blocks: a source asks which of its contributions have arrived, and a
/// lower aggregator asks the same about its partial sums.
///
/// Model:    A probe with kFlagRun names block b and asks about b to the end of b's run, at most a
///           window of blocks. Each block costs one hash lookup, so a probe costs at most 128.
/// Contract: Changes no block. The answer may be older than the block's state, never newer.
/// Tests:    tests/apps/trio_ml/block_run_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/shard.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

/// The state of a source's contribution to a block.
enum class Presence : uint8_t {
  kMissing,
  kPresent,   ///< Contributed, or the block is closed.
  kComplete,  ///< The same, and the block's result is kept.
  kSentUp,    ///< The same, and the block waits for the upper aggregator.
};

[[nodiscard]] inline Presence presence_in(const Found& found, uint32_t source) {
  switch (found.kind) {
    case Found::Kind::kActive:
      if (found.block->phase == BlockPhase::kSentUp) return Presence::kSentUp;
      return found.block->closing || contains(found.block->rcvd_mask, source) ? Presence::kPresent
                                                                              : Presence::kMissing;
    case Found::Kind::kResult:
      return Presence::kComplete;
    case Found::Kind::kPastCache:
      return Presence::kPresent;
    default:
      return Presence::kMissing;
  }
}

/// The answer to a probe about a run.
struct RunReport {
  // Bit i: the i-th block from the probe's block.
  wire::RunMask present{};
  wire::RunMask complete{};
  std::optional<uint32_t> block_sent_up;  ///< The first block that waits for the upper aggregator.
};

/// Returns the number of blocks about which a probe of this block asks.
[[nodiscard]] inline uint32_t run_length(const Job& job, uint32_t block_id) {
  return std::min(wire::blocks_to_run_end(block_id), job.config.block_cnt_max);
}

/// Looks up a block of a session.
template <microcode::Machine M>
auto look_up_block(M& m, Job& job, BlockName name) {
  return m.issue(block_table_request<M>(microcode::XtxnKind::kHashLookup, job, name.block_id),
                 [&job, name] { return job.window.find(name); });
}

/// Looks up every block of the run that the probe asks about.
template <microcode::Machine M>
microcode::Subroutine<RunReport, M> look_at_run(M& m, Job& job, const MessageHead& probe) {
  RunReport report;
  const uint32_t epoch = job.window.epoch();
  const uint32_t source = probe.header.src_id;
  const uint32_t block_count = run_length(job, probe.header.block_id);
  for (uint32_t i = 0; i < block_count; i++) {
    const BlockName name{probe.header.gen_id, probe.header.block_id + i, true};
    const Presence presence = co_await m.issue(
        block_table_request<M>(microcode::XtxnKind::kHashLookup, job, name.block_id),
        [&job, name, source] { return presence_in(job.window.find(name), source); });
    if (session_changed<M>(job, epoch)) break;
    if (presence == Presence::kMissing) continue;
    report.present[i / 64] |= uint64_t{1} << (i % 64);
    if (presence == Presence::kComplete) report.complete[i / 64] |= uint64_t{1} << (i % 64);
    if (presence == Presence::kSentUp && !report.block_sent_up)
      report.block_sent_up = name.block_id;
  }
  co_return report;
}

/// Returns a probe that asks the upper aggregator about a block, and with wire::kFlagRun in `flags`
/// about the rest of its run. Its number is the time.
[[nodiscard]] Message upstream_probe(const Job& job, const MessageHead& about, uint32_t block_id,
                                     uint8_t flags, Instant now);

/// Asks the upper aggregator about a block, and with wire::kFlagRun in `flags` about the rest of
/// its run.
template <microcode::Machine M>
void probe_upstream(M& m, Job& job, const MessageHead& about, uint32_t block_id,
                    uint8_t flags = wire::kFlagRun) {
  send_control(m, job, upstream_probe(job, about, block_id, flags, m.now()), job.config.upstream);
  job.session.upstream_watch().asked(
      {.block_id = block_id, .gen_id = about.header.gen_id, .grad_cnt = about.header.grad_cnt},
      m.now());
}

/// Asks the upper aggregator for the result of a block that is not here. The source has not asked
/// about the run, so it contributes nothing (Transfer::receive_only). If all sources do so, no
/// partial sum goes up whose repetition would repair a lost result.
template <microcode::Machine M>
void ask_for_result(M& m, Job& job, const MessageHead& about) {
  probe_upstream(m, job, about, about.header.block_id, /*flags=*/0);
}

/// Repeats the partial sums of a run that the upper aggregator lacks. Leaves out those that were
/// sent after the probe that `have` answers: they may be on their way.
template <microcode::Machine M>
microcode::Subroutine<void, M> repeat_missing(M& m, Shard& shard, Job& job, const Message& have) {
  if ((have.extension.flags & wire::kFlagRun) == 0) co_return;
  const uint32_t epoch = job.window.epoch();
  const uint32_t asked_at_us = have.extension.tensor_elements;
  const uint32_t block_count = run_length(job, have.header.block_id);
  for (uint32_t i = 0; i < block_count; i++) {
    if ((have.body.present[i / 64] >> (i % 64) & 1) != 0) continue;
    const BlockName name{have.header.gen_id, have.header.block_id + i, true};
    const Found found = co_await look_up_block(m, job, name);
    if (session_changed<M>(job, epoch)) co_return;
    if (found.kind != Found::Kind::kActive || found.block->phase != BlockPhase::kSentUp) continue;
    if (is_before_us(found.block->sent_up_at_us, asked_at_us)) {
      repeat_upstream(m, shard, job, *found.block);
    }
  }
}

}  // namespace tributary::trio_ml
