// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages from the aggregator to its sources: notices, resets, and answers to probes.
///
/// Contract: Changes no session; of a block only the note that a mismatch was told.
/// Tests:    tests/apps/trio_ml/session/control_test.cc
#pragma once

#include <optional>

#include "apps/arrival.h"
#include "apps/trio_ml/block_run.h"
#include "apps/trio_ml/decode.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/session/member_seal.h"
#include "apps/trio_ml/shard.h"
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using apps::Arrival;
using wire::Reason;

/// Sends a notice to one source.
template <microcode::Machine M>
void notify(M& m, Shard& shard, Job& job, const MessageHead& about, Reason reason,
            const Endpoint& to) {
  Message notice = control_message(job, about, MessageType::kNotice);
  notice.body.reason = reason;
  send_control(m, job, notice, to);
  count(m, shard, Outcome::kNoticeSent);
}

/// Tells the sender of an extended message that its key is not a member's. A key that another
/// aggregator has issued gets no reply, because an attacker could pass the reply to the key's owner
/// as a reply of that other aggregator.
template <microcode::Machine M>
void send_reset(M& m, Shard& shard, Job& job, const MessageHead& about, const Arrival& arrival) {
  if (!about.header.extended || !job.session.may_have_issued(about.extension.key)) return;
  send_to_stranger(m, shard, &job, reset_about(about), arrival.size, arrival.source,
                   Outcome::kResetSent);
}

/// Tells the source of an extended message that the block's result is not kept.
template <microcode::Machine M>
void tell_past_cache(M& m, Shard& shard, Job& job, const MessageHead& about, const Endpoint& to) {
  if (!about.header.extended || TRIB_MUTANT(kPastCacheSilent)) return;
  notify(m, shard, job, about, Reason::kPastCache, to);
}

/// Tells a plain source the newest generation, because its block's generation is over or too far
/// ahead. The header is the contribution's with grad_cnt 0, so that a client that does not know the
/// extension does not take the notice for a result.
template <microcode::Machine M>
void tell_generation(M& m, Shard& shard, Job& job, const MessageHead& about, Reason reason,
                     const Arrival& arrival) {
  Message notice = control_message(job, about, MessageType::kNotice);
  notice.header.grad_cnt = 0;
  notice.body.reason = reason;
  notice.body.value = job.window.gen_id_newest();
  send_to_stranger(m, shard, &job, notice, arrival.size, arrival.source, Outcome::kNoticeSent);
}

/// Describes a contribution whose tensor differs from its block's.
[[nodiscard]] Mismatch mismatch_of(const Job& job, const BlockRecord& block,
                                   const MessageHead& contribution);
/// Returns the notice about a mismatch, for the block of the message `about`.
[[nodiscard]] Message mismatch_notice(const Job& job, const Mismatch& mismatch,
                                      const MessageHead& about);

/// Tells all sources that they disagree about a block's tensor, since its sum can never be right.
/// After the first notice of a block, tells only the source of the contribution.
template <microcode::Machine M>
void tell_mismatch(M& m, Shard& shard, Job& job, BlockRecord& block, const MessageHead& about) {
  const Mismatch mismatch = mismatch_of(job, block, about);
  const Message notice = mismatch_notice(job, mismatch, about);
  if (!block.mismatch_told) {
    block.mismatch_told = true;
    if (!job.mismatch) job.mismatch = mismatch;
    notify_all(m, shard, job, notice);
  } else if (job.take_reply_token(about.header.src_id, m.now())) {
    const Endpoint& to = job.sources[about.header.src_id].address;
    if (to.is_set()) send_control(m, job, notice, to);
  }
}

/// Makes a message the notice that a source has left the session.
void become_peer_left(const Job& job, uint32_t source, Message& message);

/// Returns a source that the block lacks and that has left the session. Returns nothing if there is
/// none, or if the job goes on without members that have left.
[[nodiscard]] std::optional<uint32_t> left_source_of(const Job& job, const BlockRecord& block);

/// Tells all sources which source has left, if an idle block lacks one. @return whether it does.
template <microcode::Machine M>
bool tell_peer_left(M& m, Shard& shard, Job& job, const BlockRecord& block) {
  const auto source = left_source_of(job, block);
  if (!source) return false;
  Message about;
  about.header = header_of(job, block, /*upward=*/false);
  Message notice = control_message(job, about, MessageType::kNotice);
  become_peer_left(job, *source, notice);
  notify_all(m, shard, job, notice);
  return true;
}

/// Tells a source which contributions its block holds. If the block can never complete, sends the
/// reason instead (tensor mismatch, or a source that left), so a late starter also learns it.
/// @param run  The answer about the rest of the run, if the source asked for it.
template <microcode::Machine M>
void send_have(M& m, Shard& shard, Job& job, const BlockRecord& block, const MessageHead& about,
               const Endpoint& to, const std::optional<RunReport>& run = {}) {
  if (block.mismatch_told && job.mismatch) {
    send_control(m, job, mismatch_notice(job, *job.mismatch, about), to);
    return count(m, shard, Outcome::kNoticeSent);
  }
  Message reply = control_message(job, about, MessageType::kHave);
  reply.body.mask = TRIB_MUTANT(kHaveWithoutMask) ? job.record.src_mask : block.rcvd_mask;
  reply.body.upstream = block.phase == BlockPhase::kSentUp;
  if (const auto source = left_source_of(job, block)) become_peer_left(job, *source, reply);
  if (run && reply.extension.type == MessageType::kHave) {
    reply.extension.flags = wire::kFlagRun;
    reply.extension.tensor_elements = about.extension.tensor_elements;
    reply.body.present = run->present;
    reply.body.complete = run->complete;
  }
  send_control(m, job, reply, to);
  count(m, shard, Outcome::kHaveSent);
}

}  // namespace tributary::trio_ml
