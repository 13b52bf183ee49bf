// SPDX-License-Identifier: Apache-2.0
/// @file
/// Everything a source can ask for besides adding gradients: joining and leaving, probes; and what
/// it is told unasked.
///
/// Contract: Control messages change the session only, never a block.
/// Tests:    tests/apps/trio_ml/control_test.cc
#pragma once

#include "apps/arrival.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/shard.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using apps::Arrival;
using wire::Reason;

/// The message's bytes that are in local memory.
template <microcode::Machine M>
std::span<const std::byte> message_bytes(const M& m, const Arrival& arrival) {
  const microcode::PacketHead head = m.head();
  return {head.bytes() + arrival.offset, std::min(head.size() - arrival.offset, arrival.size)};
}

/// Why a message could not be decoded.
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

/// A join for a job that is not configured here gets an answer, so that its worker need not wait.
template <microcode::Machine M>
void refuse_unknown_job(M& m, const MessageHead& join, const Endpoint& to) {
  Message reply;
  reply.header = join.header;
  reply.extension.type = MessageType::kRefusal;
  reply.body.reason = Reason::kUnknownJob;
  reply.body.nonce = join.extension.session;
  send_control(m, reply, to);
}

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

template <microcode::Machine M>
void tell_session_lost(M& m, Shard& shard, const Job& job, const MessageHead& about,
                       const Endpoint& to) {
  if (about.header.extended) notify(m, shard, job, about, Reason::kSessionLost, to);
}

template <microcode::Machine M>
void tell_past_cache(M& m, Shard& shard, const Job& job, const MessageHead& about,
                     const Endpoint& to) {
  if (!about.header.extended || TRIB_MUTANT(kPastCacheSilent)) return;
  notify(m, shard, job, about, Reason::kPastCache, to);
}

/// A plain source's block is of a generation that is over, or too far ahead: tells it the newest
/// one. The header is the contribution's but for `grad_cnt`, which is 0: who knows no extension
/// does not take it for a result, least of all of a generation in progress.
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

/// Who gave what, and who had given what else before: the notice of a contribution that differs.
[[nodiscard]] Message mismatch_notice(const Job& job, const BlockRecord& block,
                                      const MessageHead& about);

/// Sources disagree about a block's tensor: the block can never be right, so all of them are told.
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

/// Answers "your contribution is here": who has contributed, and who never will.
template <microcode::Machine M>
void send_have(M& m, Shard& shard, const Job& job, const BlockRecord& block,
               const MessageHead& about, const Endpoint& to) {
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
  send_control(m, reply, to);
  count(m, shard, Outcome::kHaveSent);
}

/// A permanent straggler is one no longer. Its message is at `offset_bytes` of the packet.
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

/// The source has contributed, be it late; a permanent straggler is one no longer. Were late ones
/// not to count, a source that is always a little later than another would never be waited for
/// again.
template <microcode::Machine M>
void note_contribution(M& m, Shard& shard, Job& job, uint32_t source, uint32_t offset_bytes) {
  job.sources[source].contributed = true;
  if (TRIB_MUTANT(kPermanentForEver)) return;
  if (!contains(job.record.active_mask, source)) [[unlikely]]
    note_return(m, shard, job, offset_bytes);
}

/// This aggregator's join toward the upper one, and its good-bye.
[[nodiscard]] Message upstream_join(const Job& job);
[[nodiscard]] Message upstream_message(const Job& job, MessageType type);
/// Whether a member's message carries the session and key it was given.
[[nodiscard]] bool is_member(const Job& job, const MessageHead& message);

/// A session has begun: every member learns its number and its key.
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

/// The session here is over: says good-bye above, if there is an above. `good_bye` was made by
/// upstream_message() while the session still had its number there.
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
  const Found found =
      co_await m.issue(microcode::Xtxn{microcode::XtxnKind::kHashLookup, &job.record, 8},
                       [&job, name] { return job.window.find(name); });
  switch (found.kind) {
    case Found::Kind::kActive:
      if (found.block->phase == BlockPhase::kSentUp && !TRIB_MUTANT(kPartialNotRepeated)) {
        repeat_upstream(m, shard, job, *found.block);
      }
      send_have(m, shard, job, *found.block, message, arrival.source);
      break;
    case Found::Kind::kResult:
      if (TRIB_MUTANT(kProbeUnanswered)) break;
      send_result(m, shard, job, *found.result, std::span<const Endpoint>(&arrival.source, 1));
      break;
    case Found::Kind::kPastCache:
      tell_past_cache(m, shard, job, message, arrival.source);
      break;
    default:  // Not here: an empty mask asks for the contribution itself.
      send_have(m, shard, job, BlockRecord{}, message, arrival.source);
  }
}

}  // namespace detail

/// Messages that change a session are shard 0's alone (session.h). Steering brings them there,
/// since workers send them with block_id 0; one with another is refused.
[[nodiscard]] constexpr bool is_of_session(MessageType type) {
  return type == MessageType::kJoin || type == MessageType::kLeave;
}

/// A message that is neither a contribution nor from above.
template <microcode::Machine M>
microcode::Subroutine<void, M> serve_control(M& m, Shard& shard, Job& job, const Arrival& arrival) {
  Message message;
  const auto status = decode_message(message_bytes(m, arrival), arrival.size, message);
  TRIB_ASSERT(status == wire::DecodeStatus::kOk);  // Its head was decoded before.
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
      // The session lives. Who does not know the key is not told more than that it was refused.
      refuse(m, shard, Outcome::kWrongKey);
      co_return;
    }
    // A good-bye is said several times; the later ones may come when the session is over.
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
