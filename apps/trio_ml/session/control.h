// SPDX-License-Identifier: Apache-2.0
/// @file
/// Control messages of sources: join, leave, probe, keep-alive.
///
/// Contract: A control message changes the session only, never a block.
/// Tests:    tests/apps/trio_ml/session/control_test.cc
#pragma once

#include "apps/arrival.h"
#include "apps/trio_ml/block_run.h"
#include "apps/trio_ml/decode.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/session/member_notices.h"
#include "apps/trio_ml/session/member_seal.h"
#include "apps/trio_ml/session/source_notices.h"
#include "apps/trio_ml/shard.h"
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

using apps::Arrival;
using wire::Reason;

/// Ends a source's time as a permanent straggler on this core. The first core announces it. The
/// source's message is at `offset_bytes` of the packet.
template <microcode::Machine M>
[[gnu::noinline, gnu::cold]] void note_return(M& m, Shard& shard, Job& job, uint32_t offset_bytes) {
  MessageHead message;
  const auto head = m.head().read(offset_bytes, wire::TrioMlHeader::kBytes);
  decode_header(wire::View<wire::TrioMlHeader>(head.data()), message.header);
  include(job.record.active_mask, message.header.src_id);
  if (!job.session.note_return(message.header.src_id, job.adopted())) return;
  count(m, shard, Outcome::kSourceReturned);
  shard.note(job, message.header.src_id, {.kind = EventKind::kReturned, .at = m.now()});
  if (!message.header.extended) return;
  Message notice = control_message(job, message, MessageType::kNotice);
  notice.body.reason = Reason::kSourceReturned;
  notice.body.mask = job.session.ranks_of(message.header.src_id);
  notify_all(m, shard, job, notice);
}

/// Records that the source has contributed, and ends its time as a permanent straggler. Late
/// contributions count, too: otherwise a source that is always a little later than another would
/// stay a permanent straggler for ever.
template <microcode::Machine M>
void note_contribution(M& m, Shard& shard, Job& job, uint32_t source, uint32_t offset_bytes) {
  SourceState& state = job.sources[source];
  state.contributed = true;
  if constexpr (!M::kSuspends) {  // The chip has one core.
    const uint32_t tick = contribution_tick(m.now());
    if (state.shared_tick != tick) [[unlikely]] {
      state.shared_tick = tick;
      job.session.note_contribution(source, m.now());
    }
  }
  if (TRIB_MUTANT(kPermanentForEver)) return;
  if (!contains(job.record.active_mask, source)) [[unlikely]]
    note_return(m, shard, job, offset_bytes);
}

/// Returns this aggregator's join for the upper one.
[[nodiscard]] Message upstream_join(const Job& job);
/// Returns another control message for the upper aggregator, such as a leave or a keep-alive.
[[nodiscard]] Message upstream_message(const Job& job, MessageType type);
/// Tells whether a message carries the key of its source. @pre src_id is a source of the job.
[[nodiscard]] bool is_member(const Job& job, const MessageHead& message);

/// Sends every member its session number and key at the start of a session.
template <microcode::Machine M>
void welcome_all(M& m, Shard& shard, Job& job) {
  count(m, shard, Outcome::kSessionStarted);
  shard.note(job, wire::kSourcesMax,
             {.kind = EventKind::kSessionStarted, .value = job.config.sources, .at = m.now()});
  job.adopt(job.session.number());
  for (uint32_t source = 0; source < job.config.sources; source++) {
    Message welcome = control_message(job, {}, MessageType::kWelcome);
    welcome.header.src_id = static_cast<uint8_t>(source);
    welcome.extension.key = job.session.nonce_of(source);
    welcome.body = job.session.welcome_body(source);
    send_control(m, job, welcome, job.session.address_of(source));
    count(m, shard, Outcome::kWelcome);
  }
}

/// Notes that the job's session has ended. @param reason See EventKind::kSessionEnded.
void note_end(Shard& shard, const Job& job, Reason reason, Instant now);
/// Serves a join with a good cookie and notes its effect. Workers repeat their joins, so only the
/// first one of a worker is noted.
[[nodiscard]] Session::JoinAnswer take_join(Shard& shard, Job& job, const Message& message,
                                            const Endpoint& from, Instant now);

/// Sends the leave to the upper aggregator, if there is one. It names the aggregator that a source
/// has lost, so that the ranks of the whole tree learn it.
template <microcode::Machine M>
void send_leave_upstream(M& m, Job& job, Message leave) {
  if (!job.config.upstream.is_set()) return;
  leave.extension.tensor_elements = job.session.any_lost_aggregator();
  send_control(m, job, leave, job.config.upstream);
}

/// Counts the end of the session and sends a leave to the upper aggregator, if there is one.
/// @param leave_message The result of upstream_message() before the session ended, with its number.
/// @param reason   See EventKind::kSessionEnded.
template <microcode::Machine M>
void end_upstream(M& m, Shard& shard, Job& job, const Message& leave_message, Reason reason) {
  if (!job.ending) {  // end_memberships() has noted it.
    count(m, shard, Outcome::kSessionEnded);
    note_end(shard, job, reason, m.now());
  }
  send_leave_upstream(m, job, leave_message);
}

/// Answers a probe in an asynchronous job (asynchronous.h).
template <microcode::Machine M>
void serve_push_probe(M& m, Shard& shard, Job& job, const Message& message, const Endpoint& from);

namespace detail {

/// Sends the reply to one worker's join to the other pending workers.
template <microcode::Machine M>
void send_to_pending(M& m, Job& job, const Message& reply) {
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (source == reply.header.src_id) continue;
    Message copy = reply;
    copy.header.src_id = static_cast<uint8_t>(source);
    copy.extension.key = job.session.pending_nonce(source, m.now());
    if (copy.extension.key == 0) continue;
    send_control(m, job, copy, job.session.address_of(source));
  }
}

/// Tells whether a message of a worker without a session is sealed with the job's key.
template <microcode::Machine M>
[[nodiscard]] bool opens_lasting_seal(const M& m, const Job& job, const Message& message,
                                      const Arrival& arrival) {
  return wire::seal_mode(message.extension.flags) == auth::Mode::kHeader &&
         job.end.opens_join(message_bytes(m, arrival).first(message.head_bytes));
}

/// Checks the seal of a join. Tells the sender if its mode or secret is not the job's.
template <microcode::Machine M>
[[nodiscard]] Verdict open_join_seal(M& m, Shard& shard, Job& job, const Message& message,
                                     const Arrival& arrival) {
  const auto head = message_bytes(m, arrival).first(message.head_bytes);
  const bool sealed = wire::seal_mode(message.extension.flags) == auth::Mode::kHeader;
  const bool agreed =
      message.body.value == static_cast<uint32_t>(job.end.mode()) && sealed == job.end.is_sealed();
  if (agreed && (!sealed || job.end.opens_join(head))) return kAccepted;
  Message reply = control_message(job, message, MessageType::kRefusal);
  reply.extension.key = message.extension.key;
  reply.body.reason = Reason::kAuthentication;
  reply.body.value = static_cast<uint32_t>(job.end.mode());
  send_to_stranger(m, shard, /*job=*/nullptr, reply, arrival.size, arrival.source,
                   Outcome::kNoticeSent);
  job.keep_join_outcome(message.header.src_id, Reason::kAuthentication, arrival.source, m.now());
  shard.note(job, message.header.src_id,
             {.kind = EventKind::kJoinRefused,
              .reason = Reason::kAuthentication,
              .at = m.now(),
              .address = arrival.source});
  return Outcome::kWrongAuthentication;
}

/// Tells whether a sealed join was sent before.
template <microcode::Machine M>
[[nodiscard]] bool is_old_join(const M& m, Job& job, const Message& message,
                               const Arrival& arrival) {
  if (!job.end.is_sealed() || TRIB_MUTANT(kOldJoinServed)) return false;
  const auto head = message_bytes(m, arrival).first(message.head_bytes);
  const auto sequence =
      load_be<uint64_t>(head.data() + head.size() - auth::kHeaderTagBytes - auth::kSequenceBytes);
  return !job.session.note_join_sequence(message.header.src_id, message.extension.key, sequence);
}

/// Serves a join. Without a good cookie the sender gets one, and the aggregator keeps no state.
template <microcode::Machine M>
void serve_join(M& m, Shard& shard, Job& job, const Message& message, const Arrival& arrival) {
  if (const Verdict verdict = open_join_seal(m, shard, job, message, arrival);
      verdict.is_refused()) {
    return refuse(m, shard, verdict.reason());
  }
  const Endpoint& from = arrival.source;
  const auth::CookieOwner owner{.address = from,
                                .nonce = message.extension.key,
                                .job_id = job.config.id,
                                .source = message.header.src_id,
                                .generation = job.session.cookie_generation(message.header.src_id)};
  Message reply = control_message(job, message, MessageType::kCookie);
  reply.extension.key = message.extension.key;  // The worker recognises the reply by its nonce.
  if (!job.session.cookies().is_valid(message.body.key, owner, m.now()) &&
      !TRIB_MUTANT(kCookieUnchecked)) {
    reply.body.key = job.session.cookies().make(owner, m.now());
    send_to_stranger(m, shard, &job, reply, arrival.size, from, Outcome::kCookieSent);
    return m.drop(static_cast<uint32_t>(Outcome::kCookieSent));
  }
  // A join with a bad cookie has no effect, so only the others are numbered.
  if (is_old_join(m, job, message, arrival)) return refuse(m, shard, Outcome::kReplayed);
  m.drop(static_cast<uint32_t>(Outcome::kJoin));
  count(m, shard, Outcome::kJoin);
  const uint32_t number_before = job.session.number();
  const Message leave_message = upstream_message(job, MessageType::kLeave);
  const Session::JoinAnswer answer = take_join(shard, job, message, from, m.now());
  if (number_before != 0 && number_before != job.session.number()) {
    count(m, shard, Outcome::kSessionEnded);  // take_join() has noted the reason.
    send_leave_upstream(m, job, leave_message);
  }
  if (answer.join_upstream) send_control(m, job, upstream_join(job), job.config.upstream);
  if (answer.started) {
    welcome_all(m, shard, job);
    return;
  }
  reply.extension.type = answer.reply;
  reply.body = answer.body;
  send_control(m, job, reply, from);
  if (answer.reply == MessageType::kWelcome) count(m, shard, Outcome::kWelcome);
  if (answer.to_all_pending) send_to_pending(m, job, reply);
}

/// Tells the members that a source has left because it has lost another aggregator. Members that
/// have sent nothing since their join are known to shard 0 alone.
template <microcode::Machine M>
void tell_members_of_loss(M& m, Shard& shard, Job& job, const Message& leave) {
  Message notice = control_message(job, leave, MessageType::kNotice);
  become_peer_left(job, leave.header.src_id, notice);
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (job.session.has_left(source)) continue;
    Endpoint to = job.sources[source].address;
    if (!to.is_set() && shard.index() == 0) to = job.session.address_of(source);
    if (!to.is_set()) continue;
    send_control(m, job, notice, to);
    count(m, shard, Outcome::kNoticeSent);
  }
}

/// Serves a leave. If the source has lost another aggregator, tells all members, whether or not
/// they wait here. If the job goes on without members that have left, tells nobody: a broken path
/// of one rank must not end the others, and each rank finds a dead aggregator by itself. Other
/// leaves are told to members that wait for the source (left_source_of()).
template <microcode::Machine M>
void serve_leave(M& m, Shard& shard, Job& job, const Message& message) {
  const Message leave_message = upstream_message(job, MessageType::kLeave);
  const uint32_t lost_aggregator = message.extension.tensor_elements;
  const uint32_t source = message.header.src_id;
  if (!job.session.has_left(source)) {
    shard.note(job, source,
               {.kind = EventKind::kRankLeft, .value = lost_aggregator, .at = m.now()});
  }
  if (job.session.leave(source, lost_aggregator)) {
    end_upstream(m, shard, job, leave_message, Reason::kPeerLeft);
    return;
  }
  if (lost_aggregator != 0 && job.config.ends_at_leave() && job.take_reply_token(source, m.now())) {
    tell_members_of_loss(m, shard, job, message);
  }
}

/// Serves a message whose key is not a member's. It may be the leave of a worker that has not
/// received its welcome, and so has only its nonce.
template <microcode::Machine M>
void serve_stranger(M& m, Shard& shard, Job& job, const Message& message, const Arrival& arrival) {
  const uint32_t source = message.header.src_id;
  if (message.extension.type == MessageType::kLeave) {
    // Workers send a leave several times; the later ones may arrive after the session has ended.
    if (job.session.was_member(source, message.extension.key)) {
      return refuse(m, shard, Outcome::kWrongSession);
    }
    if (job.end.is_sealed() && !opens_lasting_seal(m, job, message, arrival)) {
      return refuse(m, shard, Outcome::kBadSeal);
    }
    const auto what = job.session.withdraw(source, message.extension.key);
    if (what == Session::Withdrawal::kMember) serve_leave(m, shard, job, message);
    if (what == Session::Withdrawal::kPending) {
      shard.note(job, source,
                 {.kind = EventKind::kRankWithdrawn, .at = m.now(), .address = arrival.source});
    }
    if (what != Session::Withdrawal::kUnknown) return refuse(m, shard, Outcome::kLeave);
  } else {
    send_reset(m, shard, job, message, arrival);
  }
  refuse(m, shard, job.adopted() == 0 ? Outcome::kWrongSession : Outcome::kWrongKey);
}

template <microcode::Machine M>
microcode::Subroutine<void, M> serve_probe(M& m, Shard& shard, Job& job, const Message& message,
                                           const Arrival& arrival) {
  count(m, shard, Outcome::kProbe);
  record_block(shard, recorder::Kind::kProbed, job, recorded_rank(job, message.header.src_id),
               message.header.block_id, m.now());
  if (!job.take_reply_token(message.header.src_id, m.now())) {
    count(m, shard, Outcome::kSourceQuota);
    co_return;
  }
  if (job.parameters != nullptr) {
    serve_push_probe(m, shard, job, message, arrival.source);
    co_return;
  }
  const BlockName name{message.header.gen_id, message.header.block_id, true};
  const uint32_t epoch = job.window.epoch();
  Found found = co_await look_up_block(m, job, name);
  std::optional<RunReport> run;
  const bool answered = found.kind == Found::Kind::kResult || found.kind == Found::Kind::kPastCache;
  if ((message.extension.flags & wire::kFlagRun) != 0 && !answered) {
    run = co_await look_at_run(m, job, message);
    found = co_await look_up_block(m, job, name);  // Other threads may have changed the block.
  }
  if (session_changed<M>(job, epoch)) co_return;
  if (run && run->block_sent_up && !TRIB_MUTANT(kPartialNotRepeated)) {
    probe_upstream(m, job, message, *run->block_sent_up);
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
      resend_result(m, shard, job, *found.result, message.header.src_id, arrival.source);
      break;
    case Found::Kind::kPastCache:
      tell_past_cache(m, shard, job, message, arrival.source);
      break;
    default:  // The block is not here: an empty mask asks for the contribution.
      if (!run && found.kind == Found::Kind::kAbsent && job.config.upstream.is_set()) {
        ask_for_result(m, job, message);
      }
      send_have(m, shard, job, BlockRecord{}, message, arrival.source, run);
  }
}

}  // namespace detail

/// Tells whether a message changes a session. Only shard 0 serves such messages (session.h).
/// Workers send them with block_id 0, so steering brings them there; any other block_id is refused.
[[nodiscard]] constexpr bool is_session_message(MessageType type) {
  return type == MessageType::kJoin || type == MessageType::kLeave;
}

/// Serves a control message of a source.
template <microcode::Machine M>
microcode::Subroutine<void, M> serve_control(M& m, Shard& shard, Job& job, const Arrival& arrival) {
  Message message;
  const auto status = read_message(m, arrival, message);
  if (status != wire::DecodeStatus::kOk) {
    refuse(m, shard, refusal_of(status));
    co_return;
  }
  const MessageType type = message.extension.type;
  if (is_session_message(type) && shard.index() != 0) {
    refuse(m, shard, Outcome::kNotExpectedHere);
    co_return;
  }
  if (type == MessageType::kJoin) {
    detail::serve_join(m, shard, job, message, arrival);
    co_return;
  }
  if (message.header.src_id >= job.config.sources) {
    if (wire::is_of_member(type)) send_reset(m, shard, job, message, arrival);
    refuse(m, shard, Outcome::kSourceOutsideJob);
    co_return;
  }
  if (!is_member(job, message)) {
    detail::serve_stranger(m, shard, job, message, arrival);
    co_return;
  }
  if (const Verdict verdict = open_member_seal(m, job, sealed_message(message, arrival));
      verdict.is_refused()) {
    refuse(m, shard, verdict.reason());
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
      detail::serve_leave(m, shard, job, message);
      refuse(m, shard, Outcome::kLeave);
      break;
    case MessageType::kKeepAlive:
      refuse(m, shard, Outcome::kKeepAlive);
      break;
    case MessageType::kReport:
      take_report(m, shard, job, message);
      break;
    case MessageType::kNotice:
      forward_notice(m, shard, job, message);
      break;
    default:
      refuse(m, shard, Outcome::kNotExpectedHere);
  }
}

}  // namespace tributary::trio_ml
