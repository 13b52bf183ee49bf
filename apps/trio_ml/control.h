// SPDX-License-Identifier: Apache-2.0
/// @file
/// Control messages of sources (join, leave, probe, keep-alive), and the notices that the
/// aggregator sends to sources.
///
/// Contract: A control message changes the session only, never a block.
/// Tests:    tests/apps/trio_ml/control_test.cc
#pragma once

#include "apps/arrival.h"
#include "apps/trio_ml/block_run.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/shard.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using apps::Arrival;
using wire::Reason;

/// Returns the bytes of the message that are in local memory.
template <microcode::Machine M>
std::span<const std::byte> message_bytes(const M& m, const Arrival& arrival) {
  const microcode::PacketHead head = m.head();
  return {head.bytes() + arrival.offset, std::min(head.size() - arrival.offset, arrival.size)};
}

/// Returns the reason to refuse a message that could not be decoded.
[[nodiscard]] constexpr Outcome refusal_of(wire::DecodeStatus status) {
  switch (status) {
    case wire::DecodeStatus::kTruncated:
      return Outcome::kTruncated;
    case wire::DecodeStatus::kTooShort:
      return Outcome::kLengthBelowGradCnt;
    case wire::DecodeStatus::kTooLong:
      return Outcome::kLengthAboveGradCnt;
    default:
      return Outcome::kBadExtension;
  }
}

/// Refuses a join for a job that is not configured here, so that its worker need not wait.
template <microcode::Machine M>
void refuse_unknown_job(M& m, const MessageHead& join, const Endpoint& to) {
  Message reply;
  reply.header = join.header;
  reply.extension.type = MessageType::kRefusal;
  reply.body.reason = Reason::kUnknownJob;
  reply.body.nonce = join.extension.session;
  send_control(m, reply, to);
}

/// Sends a notice to one source.
template <microcode::Machine M>
void notify(M& m, Shard& shard, const Job& job, const MessageHead& about, Reason reason,
            const Endpoint& to) {
  Message notice = control_message(job, about, MessageType::kNotice);
  notice.extension.session = about.extension.session;
  notice.body.reason = reason;
  send_control(m, notice, to);
  count(m, shard, Outcome::kNoticeSent);
}

/// Checks a contribution against the block that it would join, or a result of the upper aggregator
/// against the block whose partial sum it replaces.
[[nodiscard]] inline Verdict check_against_block(const BlockRecord& block,
                                                 const MessageHead& message) {
  if (TRIB_MUTANT(kNoTensorCheck)) return kAccepted;
  if (message.header.grad_cnt != block.grad_cnt) return Outcome::kGradCntDiffers;
  if (!message.header.extended) {
    if (block.extended) return Outcome::kTensorDiffers;
    return kAccepted;
  }
  const wire::ExtensionFields& extension = message.extension;
  const bool agrees = block.extended && message.header.gen_id == block.gen_id &&
                      extension.tensor_elements == block.tensor_elements &&
                      (extension.scale_bits == block.scale_bits || TRIB_MUTANT(kNoScaleCheck)) &&
                      extension.format == block.format;
  if (!agrees) return Outcome::kTensorDiffers;
  return kAccepted;
}

/// Tells the source of an extended message that its session is over.
template <microcode::Machine M>
void tell_session_lost(M& m, Shard& shard, const Job& job, const MessageHead& about,
                       const Endpoint& to) {
  if (about.header.extended) notify(m, shard, job, about, Reason::kSessionLost, to);
}

/// Tells the source of an extended message that the block's result is not kept.
template <microcode::Machine M>
void tell_past_cache(M& m, Shard& shard, const Job& job, const MessageHead& about,
                     const Endpoint& to) {
  if (!about.header.extended || TRIB_MUTANT(kPastCacheSilent)) return;
  notify(m, shard, job, about, Reason::kPastCache, to);
}

/// Tells a plain source the newest generation, because its block's generation is over or too far
/// ahead. The header is the contribution's with grad_cnt 0, so that a client that does not know the
/// extension does not take the notice for a result.
template <microcode::Machine M>
void tell_generation(M& m, Shard& shard, const Job& job, const MessageHead& about, Reason reason,
                     const Endpoint& to) {
  Message notice = control_message(job, about, MessageType::kNotice);
  notice.header.grad_cnt = 0;
  notice.body.reason = reason;
  notice.body.value = job.window.gen_id_newest();
  send_control(m, notice, to);
  count(m, shard, Outcome::kNoticeSent);
}

/// Returns the notice about a contribution whose tensor differs from its block's: the ranks and
/// tensor of the block, and the ranks and tensor of the contribution.
[[nodiscard]] Message mismatch_notice(const Job& job, const BlockRecord& block,
                                      const MessageHead& about);

/// Tells all sources that they disagree about a block's tensor, since its sum can never be right.
/// After the first notice of a block, tells only the source of the contribution.
template <microcode::Machine M>
void tell_mismatch(M& m, Shard& shard, const Job& job, BlockRecord& block,
                   const MessageHead& about) {
  const Message notice = mismatch_notice(job, block, about);
  if (!block.mismatch_told) {
    block.mismatch_told = true;
    notify_all(m, shard, job, notice);
  } else {
    const Endpoint& to = job.sources[about.header.src_id].address;
    if (to.is_set()) send_control(m, notice, to);
  }
}

/// Answers a source whether the block holds its contribution: sends the mask of contributions. If
/// an expected source has left, sends a notice that names it instead.
/// @param run  The answer about the rest of the run, if the source asked for it.
template <microcode::Machine M>
void send_have(M& m, Shard& shard, const Job& job, const BlockRecord& block,
               const MessageHead& about, const Endpoint& to,
               const std::optional<RunReport>& run = {}) {
  Message reply = control_message(job, about, MessageType::kHave);
  reply.body.mask = TRIB_MUTANT(kHaveWithoutMask) ? job.record.src_mask : block.rcvd_mask;
  reply.body.upstream = block.phase == BlockPhase::kSentUp;
  for (uint32_t source = 0; source < job.config.sources && !job.config.mitigation; source++) {
    if (contains(block.expected, source) && !contains(block.rcvd_mask, source) &&
        job.session.has_left(source)) {
      reply.extension.type = MessageType::kNotice;
      reply.body.reason = Reason::kPeerLeft;
      reply.body.source = static_cast<uint8_t>(source);
      reply.body.mask = job.session.ranks_of(source);
      break;
    }
  }
  if (run && reply.extension.type == MessageType::kHave) {
    reply.extension.flags = wire::kFlagRun;
    reply.extension.tensor_elements = about.extension.tensor_elements;
    reply.body.present = run->present;
    reply.body.complete = run->complete;
  }
  send_control(m, reply, to);
  count(m, shard, Outcome::kHaveSent);
}

/// Makes a permanent straggler an active source once more. Its message is at `offset_bytes` of the
/// packet.
template <microcode::Machine M>
[[gnu::noinline, gnu::cold]] void note_return(M& m, Shard& shard, Job& job, uint32_t offset_bytes) {
  MessageHead message;
  decode_header(wire::View<wire::TrioMlHeader>(m.head().bytes() + offset_bytes), message.header);
  include(job.record.active_mask, message.header.src_id);
  count(m, shard, Outcome::kSourceReturned);
  if (!message.header.extended) return;
  Message notice = control_message(job, message, MessageType::kNotice);
  notice.body.reason = Reason::kSourceReturned;
  notify_all(m, shard, job, notice);
}

/// Records that the source has contributed, and ends its time as a permanent straggler. Late
/// contributions count, too: otherwise a source that is always a little later than another would
/// stay a permanent straggler for ever.
template <microcode::Machine M>
void note_contribution(M& m, Shard& shard, Job& job, uint32_t source, uint32_t offset_bytes) {
  job.sources[source].contributed = true;
  if (TRIB_MUTANT(kPermanentForEver)) return;
  if (!contains(job.record.active_mask, source)) [[unlikely]]
    note_return(m, shard, job, offset_bytes);
}

/// Returns this aggregator's join for the upper one.
[[nodiscard]] Message upstream_join(const Job& job);
/// Returns another control message for the upper aggregator, such as a leave or a keep-alive.
[[nodiscard]] Message upstream_message(const Job& job, MessageType type);
/// Tells whether a message carries the session and the key of its source.
[[nodiscard]] bool is_member(const Job& job, const MessageHead& message);

/// Sends every member its session number and key at the start of a session.
template <microcode::Machine M>
void welcome_all(M& m, Shard& shard, Job& job) {
  count(m, shard, Outcome::kSessionStarted);
  job.adopt(job.session.number());
  for (uint32_t source = 0; source < job.config.sources; source++) {
    Message welcome = control_message(job, {}, MessageType::kWelcome);
    welcome.header.src_id = static_cast<uint8_t>(source);
    welcome.body = job.session.welcome_body(source);
    send_control(m, welcome, job.session.address_of(source));
    count(m, shard, Outcome::kWelcome);
  }
}

/// Counts the end of the session and sends a leave to the upper aggregator, if there is one.
/// @param good_bye The result of upstream_message() before the session ended, with its number.
template <microcode::Machine M>
void end_upstream(M& m, Shard& shard, const Job& job, const Message& good_bye) {
  count(m, shard, Outcome::kSessionEnded);
  if (job.config.upstream.is_set()) send_control(m, good_bye, job.config.upstream);
}

namespace detail {

template <microcode::Machine M>
void serve_join(M& m, Shard& shard, Job& job, const Message& message, const Endpoint& from) {
  count(m, shard, Outcome::kJoin);
  const Session::JoinAnswer answer = job.session.join(message, from, m.now());
  if (answer.join_upstream) send_control(m, upstream_join(job), job.config.upstream);
  if (answer.started) {
    welcome_all(m, shard, job);
    return;
  }
  Message reply = control_message(job, message, answer.reply);
  reply.body = answer.body;
  send_control(m, reply, from);
  if (answer.reply == MessageType::kWelcome) count(m, shard, Outcome::kWelcome);
}

template <microcode::Machine M>
void serve_leave(M& m, Shard& shard, Job& job, uint32_t source) {
  const Message good_bye = upstream_message(job, MessageType::kLeave);
  if (job.session.leave(source)) end_upstream(m, shard, job, good_bye);
}

template <microcode::Machine M>
microcode::Subroutine<void, M> serve_probe(M& m, Shard& shard, Job& job, const Message& message,
                                           const Arrival& arrival) {
  count(m, shard, Outcome::kProbe);
  const BlockName name{message.header.gen_id, message.header.block_id, true};
  Found found = co_await look_up_block(m, job, name);
  std::optional<RunReport> run;
  const bool answered = found.kind == Found::Kind::kResult || found.kind == Found::Kind::kPastCache;
  if ((message.extension.flags & wire::kFlagRun) != 0 && !answered) {
    run = co_await look_at_run(m, job, message);
    found = co_await look_up_block(m, job, name);  // Other threads may have changed the block.
    if (run->block_sent_up && !TRIB_MUTANT(kPartialNotRepeated)) {
      send_control(m, upstream_probe(job, message, *run->block_sent_up, m.now()),
                   job.config.upstream);
    }
  }
  switch (found.kind) {
    case Found::Kind::kActive:
      if (!run && found.block->phase == BlockPhase::kSentUp && !TRIB_MUTANT(kPartialNotRepeated)) {
        repeat_upstream(m, shard, job, *found.block);
      }
      send_have(m, shard, job, *found.block, message, arrival.source, run);
      break;
    case Found::Kind::kResult:
      if (TRIB_MUTANT(kProbeUnanswered)) break;
      send_result(m, shard, job, *found.result, std::span<const Endpoint>(&arrival.source, 1));
      break;
    case Found::Kind::kPastCache:
      tell_past_cache(m, shard, job, message, arrival.source);
      break;
    default:  // The block is not here: an empty mask asks for the contribution.
      send_have(m, shard, job, BlockRecord{}, message, arrival.source, run);
  }
}

}  // namespace detail

/// Tells whether a message changes a session. Only shard 0 serves such messages (session.h).
/// Workers send them with block_id 0, so steering brings them there; any other block_id is refused.
[[nodiscard]] constexpr bool is_of_session(MessageType type) {
  return type == MessageType::kJoin || type == MessageType::kLeave;
}

/// Serves a control message of a source.
template <microcode::Machine M>
microcode::Subroutine<void, M> serve_control(M& m, Shard& shard, Job& job, const Arrival& arrival) {
  Message message;
  const auto status = decode_message(message_bytes(m, arrival), arrival.size, message);
  TRIB_ASSERT(status == wire::DecodeStatus::kOk);  // Its head has been decoded.
  const MessageType type = message.extension.type;
  if (is_of_session(type) && shard.index() != 0) {
    refuse(m, shard, Outcome::kNotExpectedHere);
    co_return;
  }
  if (type == MessageType::kJoin) {
    detail::serve_join(m, shard, job, message, arrival.source);
    m.drop(static_cast<uint32_t>(Outcome::kJoin));
    co_return;
  }
  if (message.header.src_id >= job.config.sources) {
    refuse(m, shard, Outcome::kSourceOutsideJob);
    co_return;
  }
  if (type == MessageType::kLeave && message.extension.key == 0) {
    const auto what = job.session.withdraw(message.header.src_id, message.extension.session);
    if (what == Session::Withdrawal::kMember) {
      detail::serve_leave(m, shard, job, message.header.src_id);
    }
    refuse(m, shard,
           what == Session::Withdrawal::kUnknown ? Outcome::kWrongSession : Outcome::kLeave);
    co_return;
  }
  if (!is_member(job, message)) {
    if (job.adopted() != 0 && message.extension.session == job.adopted()) {
      // The session runs, but a sender without the key gets no answer.
      refuse(m, shard, Outcome::kWrongKey);
      co_return;
    }
    // Workers send a leave several times; the later ones may arrive after the session has ended.
    if (type != MessageType::kLeave) tell_session_lost(m, shard, job, message, arrival.source);
    refuse(m, shard, Outcome::kWrongSession);
    co_return;
  }
  if (!job.locate(message.header.src_id, arrival.source)) {
    refuse(m, shard, Outcome::kForeignAddress);
    co_return;
  }
  job.session.heard(message.header.src_id, m.now());
  switch (type) {
    case MessageType::kProbe:
      co_await detail::serve_probe(m, shard, job, message, arrival);
      m.drop(static_cast<uint32_t>(Outcome::kProbe));
      break;
    case MessageType::kLeave:
      detail::serve_leave(m, shard, job, message.header.src_id);
      refuse(m, shard, Outcome::kLeave);
      break;
    case MessageType::kKeepAlive:
      refuse(m, shard, Outcome::kKeepAlive);
      break;
    default:
      refuse(m, shard, Outcome::kNotExpectedHere);
  }
}

}  // namespace tributary::trio_ml
