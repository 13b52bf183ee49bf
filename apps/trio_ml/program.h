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
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

inline constexpr microcode::Instruction kParseHeader{"parse_header",
                                                     {.lmem_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kCheckHeader{"check_header", {.register_reads = 4}};
inline constexpr microcode::Instruction kPrepareBlock{"prepare_block",
                                                      {.register_reads = 4, .lmem_writes = 2}};
inline constexpr microcode::Instruction kCheckBlock{"check_block", {.register_reads = 4}};

/// The ranks that a lower aggregator's partial sum holds.
template <microcode::Machine M>
void merge_ranks(const M& m, BlockRecord& block, const MessageHead& message,
                 const Arrival& arrival) {
  if ((message.extension.flags & microcode::kFlagSourceMask) == 0) return;
  if (TRIB_MUTANT(kRanksNotMerged)) return;
  const SourceMask ranks = microcode::decode_mask(message_bytes(m, arrival).data());
  for (uint32_t i = 0; i < ranks.size(); i++) block.ranks[i] |= ranks[i];
}

/// What checks a contribution against its job. Outcome::kCount: nothing is wrong.
[[nodiscard]] inline Outcome check_contribution(const Job& job, const MessageHead& message) {
  const microcode::TrioMlFields& header = message.header;
  if (header.src_id >= job.config.sources) return Outcome::kSourceOutsideJob;
  if (header.grad_cnt > job.config.block_grad_max) return Outcome::kTooManyGradients;
  if (!header.extended) {
    if (job.adopted() != 0) return Outcome::kSessionRequired;
    return header.grad_cnt == 0 ? Outcome::kNoGradients : Outcome::kCount;
  }
  const microcode::ExtensionFields& extension = message.extension;
  if (!TRIB_MUTANT(kNoMembershipCheck)) {
    if (job.adopted() == 0 || extension.session != job.adopted()) return Outcome::kWrongSession;
    if (extension.key != job.key_of(header.src_id)) return Outcome::kWrongKey;
  }
  // The first blocks of a tensor may carry an exponent only.
  const bool may_be_empty = extension.format == microcode::ElementFormat::kBlockExponent;
  return header.grad_cnt == 0 && !may_be_empty ? Outcome::kNoGradients : Outcome::kCount;
}

/// The record for a block whose first contribution this is.
[[nodiscard]] BlockRecord new_block(const Job& job, const MessageHead& message);

/// What the message adds to its block's record.
[[nodiscard]] inline Contribution contribution_of(const Job& job, const MessageHead& message) {
  Contribution contribution{.exponent = message.extension.exponent,
                            .flags = message.extension.flags,
                            .final = message.header.final};
  if (job.config.sources_are_aggregators) {
    contribution.src_cnt =
        message.header.src_cnt == 0 ? uint16_t{microcode::kSourcesMax} : message.header.src_cnt;
    if (TRIB_MUTANT(kLowerCountsOne)) contribution.src_cnt = 1;
    contribution.degraded = message.header.degraded;
  }
  return contribution;
}

namespace detail {

[[nodiscard]] inline microcode::Xtxn lookup_request(const Job& job) {
  return {microcode::XtxnKind::kHashLookup, &job.record, 8};
}

[[nodiscard]] inline BlockName name_of(const MessageHead& message) {
  return {message.header.gen_id, message.header.block_id, message.header.extended};
}

/// Why a contribution finds no block to join.
[[nodiscard]] constexpr Outcome refusal_of(Found::Kind kind) {
  switch (kind) {
    case Found::Kind::kResult:
      return Outcome::kLate;
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

/// Makes a contribution's block, unless another thread has just done so: `found` becomes kActive,
/// or says why not. @return whether this made it.
template <microcode::Machine M>
microcode::Subroutine<bool, M> create_block(M& m, Shard& shard, Job& job,
                                            const MessageHead& message, Found& found) {
  m.instruction(kPrepareBlock);
  const BlockRecord prototype = new_block(job, message);
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
  // Another thread may have thawed, or taken what this one has thawed.
  while (inserted.status == BlockWindow::Insert::kNoBuffer &&
         (job.window.has_cooling() || job.window.buffers_free() > 0)) {
    if (job.window.has_cooling()) {
      m.release_payload({});
      job.window.thaw();
    }
    inserted = co_await m.issue(request, insert);
  }
  if (inserted.superseded) count(m, shard, Outcome::kBlockSuperseded);
  found.block = inserted.block;
  found.incarnation = inserted.incarnation;
  const bool made = inserted.status == BlockWindow::Insert::kCreated;
  if (made || inserted.status == BlockWindow::Insert::kExists) {
    found.kind = Found::Kind::kActive;
  } else if (inserted.status == BlockWindow::Insert::kRefused) {
    found.kind = Found::Kind::kWindowExceeded;
  }
  co_return made;
}

/// A contribution that finds no block to join: the answer, and the count.
template <microcode::Machine M>
void answer_without_block(M& m, Shard& shard, Job& job, const Found& found,
                          const MessageHead& message, const Arrival& arrival) {
  if (found.kind == Found::Kind::kAbsent) {
    refuse(m, shard, Outcome::kNoBuffer);
    return;
  }
  if (found.kind == Found::Kind::kResult) {
    note_contribution(m, shard, job, message);
    send_result(m, shard, job, *found.result, std::span<const Endpoint>(&arrival.source, 1));
  } else if (found.kind == Found::Kind::kPastCache && message.header.extended) {
    tell_past_cache(m, shard, job, message, arrival.source);
  }
  refuse(m, shard, detail::refusal_of(found.kind));
}

/// A contribution that its block holds already. Its source may have asked by sending it again.
template <microcode::Machine M>
void answer_duplicate(M& m, Shard& shard, Job& job, const BlockRecord& block,
                      const MessageHead& message, const Arrival& arrival) {
  if (block.phase == BlockPhase::kSentUp && !TRIB_MUTANT(kPartialNotRepeated)) {
    send_upstream(m, shard, job, block);
  }
  if (message.header.extended && (message.extension.flags & microcode::kFlagRetransmission) != 0) {
    send_have(m, shard, job, block, message, arrival.source);
  }
  refuse(m, shard, Outcome::kDuplicate);
}

/// A contribution that does not fit its block.
template <microcode::Machine M>
void answer_mismatch(M& m, Shard& shard, Job& job, BlockRecord& block, const MessageHead& message,
                     Outcome wrong) {
  if (message.header.extended) tell_mismatch(m, shard, job, block, message);
  refuse(m, shard, wrong);
}

/// Everything but a contribution of a source: control messages, and what comes from above.
template <microcode::Machine M>
microcode::Subroutine<void, M> serve_other(M& m, Shard& shard, Job& job, const MessageHead& message,
                                           const Arrival& arrival) {
  if (is_from_upstream(job, message, arrival.source)) {
    co_await take_from_upstream(m, shard, job, arrival);
  } else {
    co_await serve_control(m, shard, job, arrival);
  }
}

/// Whether serve_other() is to have the message.
[[nodiscard]] inline bool is_other(const Job& job, const MessageHead& message,
                                   const Arrival& arrival) {
  return (message.header.extended && message.extension.type != MessageType::kContribution) ||
         is_from_upstream(job, message, arrival.source);
}

/// The thread for one packet.
template <microcode::Machine M>
microcode::Thread process_packet(M& m, Shard& shard) {
  Arrival arrival;
  if (const Located located = locate_message(m, shard.udp_port(), arrival); !located.ok) {
    refuse(m, shard, located.refused);
    co_return;
  }
  m.instruction(kParseHeader);
  MessageHead message;
  const auto status = decode_head(message_bytes(m, arrival), arrival.size, message);
  if (status != microcode::DecodeStatus::kOk) {
    refuse(m, shard, refusal_of(status));
    co_return;
  }
  m.instruction(kCheckHeader);
  const microcode::Xtxn job_request{microcode::XtxnKind::kHashLookup, &shard, 8};
  Job* const job = co_await m.issue(job_request, [&] { return shard.job(message.header.job_id); });
  if (job == nullptr) {
    if (message.extension.type == MessageType::kJoin) {
      refuse_unknown_job(m, message, arrival.source);
    }
    refuse(m, shard, Outcome::kUnknownJob);
    co_return;
  }
  job->adopt(job->session.number());
  if (is_other(*job, message, arrival)) {
    co_await serve_other(m, shard, *job, message, arrival);
    co_return;
  }
  if (const Outcome wrong = check_contribution(*job, message); wrong != Outcome::kCount) {
    if (wrong == Outcome::kWrongSession) tell_session_lost(m, shard, *job, message, arrival.source);
    refuse(m, shard, wrong);
    co_return;
  }
  const uint32_t source = message.header.src_id;
  if (!job->locate(source, arrival.source)) {
    refuse(m, shard, Outcome::kForeignAddress);
    co_return;
  }
  if (message.header.extended) job->session.heard(source, m.now());

  Found found;
  co_await m.issue(detail::lookup_request(*job),
                   [&] { job->window.find(detail::name_of(message), found); });
  bool first = false;
  if (found.kind == Found::Kind::kAbsent) {
    first = co_await create_block(m, shard, *job, message, found);
  }
  if (found.kind != Found::Kind::kActive) {
    answer_without_block(m, shard, *job, found, message, arrival);
    co_return;
  }

  BlockRecord& block = *found.block;
  m.instruction(kCheckBlock);
  if (const Outcome wrong = check_against_block(block, message); wrong != Outcome::kCount) {
    answer_mismatch(m, shard, *job, block, message, wrong);
    co_return;
  }
  const microcode::Xtxn block_request{microcode::XtxnKind::kFetchAndOp, &block, 8};
  const Admission admission = co_await m.issue(
      block_request, [&] { return admit(block, found.incarnation, source, m.now()); });
  if (admission == Admission::kDuplicate) {
    if (TRIB_MUTANT(kDuplicateSettles)) {
      static_cast<void>(settle(block, contribution_of(*job, message)));
    }
    answer_duplicate(m, shard, *job, block, message, arrival);
    co_return;
  }
  if (admission == Admission::kClosed) {
    // Below another aggregator a block may wait for the upper result for long: who is late for it
    // is back all the same.
    note_contribution(m, shard, *job, message);
    refuse(m, shard, Outcome::kLate);
    co_return;
  }
  if (!TRIB_MUTANT(kReferenceLost)) job->ref_bits.touch(job->window.place_of(block));
  note_contribution(m, shard, *job, message);
  co_await m.accumulate(job->window.lanes(block.aggr_buffer), arrival.offset + message.head_bytes,
                        message.header.grad_cnt,
                        first && !M::kSuspends && !TRIB_MUTANT(kBufferNotCleared)
                            ? microcode::Accumulate::kFirst
                            : microcode::Accumulate::kAdd);
  count(m, shard, Outcome::kAggregated, arrival.size);
  const bool is_final = co_await m.issue(block_request, [&] {
    if (job->config.sources_are_aggregators) merge_ranks(m, block, message, arrival);
    return settle(block, contribution_of(*job, message));
  });
  if (is_final) {
    stop_aging(*job, block);
    co_await emit_block(m, shard, *job, block);
  }
}

}  // namespace tributary::trio_ml
