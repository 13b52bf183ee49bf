// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Trio-ML packet program (Trio paper §4, Figure 10): one thread for each packet.
///
///   locate the message -> check it -> look its block up -> create or join it -> add the gradients
///   -> if that made the sum final: make the result and send it
///
/// Contract: Right under every interleaving of its XTXNs (microcode/machine.h). A contribution
/// changes
///           its block's record in whole XTXNs only: insert, admit, settle.
/// Source:   Trio paper §4, §5; what it leaves open (loss, sessions) is argued in
///           docs/aggregation-protocol.md.
/// Tests:    tests/apps/trio_ml/program_test.cc (live), interleaving_test.cc (suspending machine)
#pragma once

#include "apps/trio_ml/arrival.h"
#include "apps/trio_ml/control.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/trio_ml.h"
#include "apps/trio_ml/upstream.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

inline constexpr microcode::Instruction kParseHeader{"parse_header",
                                                     {.lmem_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kCheckHeader{"check_header", {.register_reads = 4}};
inline constexpr microcode::Instruction kPrepareBlock{"prepare_block",
                                                      {.register_reads = 4, .lmem_writes = 2}};
inline constexpr microcode::Instruction kCheckBlock{"check_block", {.register_reads = 4}};

/// What checks a contribution against its job. Outcome::kCount: nothing is wrong.
[[nodiscard]] Outcome check_contribution(const Job& job, const Message& message);
/// What checks a contribution against the block that it would join, likewise.
[[nodiscard]] Outcome check_against_block(const BlockRecord& block, const Message& message);
/// The record for a block's first contribution.
[[nodiscard]] BlockRecord new_block(const Job& job, const Message& message, Instant now);
/// What the message adds to its block's record.
[[nodiscard]] Contribution contribution_of(const Job& job, const Message& message);

namespace detail {

[[nodiscard]] inline microcode::Xtxn lookup_request(const Job& job) {
  return {microcode::XtxnKind::kHashLookup, &job.record, 8};
}

[[nodiscard]] inline BlockName name_of(const Message& message) {
  return {message.header.gen_id, message.header.block_id, message.header.extended};
}

/// Why the window has no place for a block.
[[nodiscard]] constexpr Outcome refusal_of(Found::Kind kind) {
  switch (kind) {
    case Found::Kind::kStaleGeneration:
      return Outcome::kStaleGeneration;
    case Found::Kind::kFutureGeneration:
      return Outcome::kFutureGeneration;
    case Found::Kind::kPastCache:
      return Outcome::kPastCache;
    default:
      return Outcome::kWindowExceeded;
  }
}

}  // namespace detail

/// Creates the message's block unless another thread has just done so.
template <microcode::Machine M>
microcode::Subroutine<BlockWindow::Inserted, M> create_block(M& m, Shard& shard, Job& job,
                                                             const Message& message) {
  m.instruction(kPrepareBlock);
  const BlockRecord prototype = new_block(job, message, m.now());
  const BlockName name = detail::name_of(message);
  const auto insert = [&job, &prototype, name] {
    const auto inserted = job.window.insert(name, prototype, M::kSuspends);
    if (inserted.status == BlockWindow::Insert::kCreated) {
      if (!inserted.superseded) job.record.block_curr_cnt++;
      job.ref_bits.mark_live(job.window.place_of(*inserted.block));
    }
    return inserted;
  };
  const microcode::Xtxn request{microcode::XtxnKind::kHashInsert, &job.record, sizeof(BlockRecord)};
  BlockWindow::Inserted inserted = co_await m.issue(request, insert);
  if (inserted.status == BlockWindow::Insert::kNoBuffer && job.window.has_cooling()) {
    m.release_payload({});
    job.window.thaw();
    inserted = co_await m.issue(request, insert);
  }
  if (inserted.superseded) count(m, shard, Outcome::kBlockSuperseded);
  co_return inserted;
}

/// Tells a source that its contribution is here, if it has asked by sending it again.
template <microcode::Machine M>
void answer_duplicate(M& m, Shard& shard, Job& job, const BlockRecord& block,
                      const Message& message, const Endpoint& to) {
  if (block.phase == BlockPhase::kSentUp) send_upstream(m, shard, job, block);
  if (!message.header.extended) return;
  if ((message.extension.flags & microcode::kFlagRetransmission) != 0 ||
      message.extension.type == MessageType::kProbe) {
    send_have(m, shard, job, block, message, to);
  }
}

/// A contribution for a block in progress: adds it, and sends the result if it was the last.
template <microcode::Machine M>
microcode::Subroutine<void, M> join_block(M& m, Shard& shard, Job& job, BlockRecord& block,
                                          uint16_t incarnation, bool first, const Message& message,
                                          const Arrival& arrival) {
  m.instruction(kCheckBlock);
  const Outcome wrong = check_against_block(block, message);
  if (wrong != Outcome::kCount) {
    if (wrong == Outcome::kTensorDiffers || message.header.extended) {
      tell_mismatch(m, shard, job, block, message);
    }
    refuse(m, shard, wrong);
    co_return;
  }
  const uint32_t source = message.header.src_id;
  const Admission admission = co_await m.issue(
      microcode::Xtxn{microcode::XtxnKind::kFetchAndOp, &block.rcvd_mask[source / 64], 8},
      [&block, incarnation, source, now = m.now()] {
        return admit(block, incarnation, source, now);
      });
  if (admission != Admission::kAdmitted) {
    const bool duplicate = admission == Admission::kDuplicate;
    if (duplicate) answer_duplicate(m, shard, job, block, message, arrival.source);
    refuse(m, shard, duplicate ? Outcome::kDuplicate : Outcome::kLate);
    co_return;
  }
  job.ref_bits.touch(job.window.place_of(block));
  note_contribution(m, shard, job, message);
  co_await m.accumulate(
      job.window.lanes(block.aggr_buffer), arrival.offset + message.head_bytes,
      message.header.grad_cnt,
      first && !M::kSuspends ? microcode::Accumulate::kFirst : microcode::Accumulate::kAdd);
  count(m, shard, Outcome::kAggregated, arrival.size);
  const Contribution contribution = contribution_of(job, message);
  const bool last =
      co_await m.issue(microcode::Xtxn{microcode::XtxnKind::kFetchAndOp, &block.rcvd_cnt, 8},
                       [&job, &block, &contribution] {
                         const bool is_final = settle(block, contribution);
                         if (is_final) stop_aging(job, block);
                         return is_final;
                       });
  if (last) co_await emit_block(m, shard, job, block);
}

/// A contribution that passed the checks of its job.
template <microcode::Machine M>
microcode::Subroutine<void, M> contribute(M& m, Shard& shard, Job& job, const Message& message,
                                          const Arrival& arrival) {
  Found found = co_await m.issue(detail::lookup_request(job), [&job, &message] {
    return job.window.find(detail::name_of(message));
  });
  bool first = false;
  if (found.kind == Found::Kind::kAbsent) {
    const auto inserted = co_await create_block(m, shard, job, message);
    if (inserted.status == BlockWindow::Insert::kNoBuffer) {
      refuse(m, shard, Outcome::kNoBuffer);
      co_return;
    }
    if (inserted.status == BlockWindow::Insert::kRefused) {
      refuse(m, shard, Outcome::kWindowExceeded);
      co_return;
    }
    first = inserted.status == BlockWindow::Insert::kCreated;
    found.kind = Found::Kind::kActive;
    found.block = inserted.block;
    found.incarnation = inserted.incarnation;
  }
  if (found.kind == Found::Kind::kActive) {
    co_await join_block(m, shard, job, *found.block, found.incarnation, first, message, arrival);
    co_return;
  }
  if (found.kind == Found::Kind::kResult) {
    send_result(m, shard, job, *found.result, std::span<const Endpoint>(&arrival.source, 1));
    refuse(m, shard, Outcome::kLate);
    co_return;
  }
  if (found.kind == Found::Kind::kPastCache && message.header.extended) {
    tell_past_cache(m, shard, job, message, arrival.source);
  }
  refuse(m, shard, detail::refusal_of(found.kind));
}

/// The thread for one packet.
template <microcode::Machine M>
microcode::Thread process_packet(M& m, Shard& shard) {
  Arrival arrival;
  const Located located = locate_message(m, shard.udp_port(), arrival);
  if (!located.ok) {
    refuse(m, shard, located.refused);
    co_return;
  }
  m.instruction(kParseHeader);
  Message message;
  const Outcome malformed = decode(m, arrival, message);
  if (malformed != Outcome::kCount) {
    refuse(m, shard, malformed);
    co_return;
  }
  m.instruction(kCheckHeader);
  Job* job = co_await m.issue(microcode::Xtxn{microcode::XtxnKind::kHashLookup, &shard, 8},
                              [&shard, &message] { return shard.job(message.header.job_id); });
  if (job == nullptr) {
    if (message.extension.type == MessageType::kJoin) {
      refuse_unknown_job(m, message, arrival.source);
    }
    refuse(m, shard, Outcome::kUnknownJob);
    co_return;
  }
  job->adopt(job->session.number());
  if (is_from_upstream(*job, message, arrival.source)) {
    co_await take_from_upstream(m, shard, *job, message, arrival);
    co_return;
  }
  if (message.header.extended && message.extension.type != MessageType::kContribution) {
    co_await serve_control(m, shard, *job, message, arrival);
    co_return;
  }
  const Outcome wrong = check_contribution(*job, message);
  if (wrong != Outcome::kCount) {
    if (wrong == Outcome::kWrongSession) tell_session_lost(m, shard, *job, message, arrival.source);
    refuse(m, shard, wrong);
    co_return;
  }
  if (!job->locate(message.header.src_id, arrival.source)) {
    refuse(m, shard, Outcome::kForeignAddress);
    co_return;
  }
  co_await contribute(m, shard, *job, message, arrival);
}

}  // namespace tributary::trio_ml
