// SPDX-License-Identifier: Apache-2.0
/// @file
/// Hierarchical aggregation in the lower aggregator (Trio paper §4): serves messages of the upper
/// aggregator. To the upper one this aggregator is a source; emit.h sends the partial sums.
///
/// Contract: A result of the upper aggregator replaces the partial sum of a block that was sent up,
///           and completes the block. So does the result of a block to which no source below has
///           contributed: every rank gets each result or its receipt, also in a late rack.
///           Sources repair lost messages: the lower aggregator forwards their retransmissions, and
///           their questions for results to which they do not contribute.
/// Tests:    tests/apps/trio_ml/hierarchy_test.cc, hierarchy_session_test.cc
#pragma once

#include <algorithm>
#include <utility>

#include "apps/arrival.h"
#include "apps/trio_ml/block_run.h"
#include "apps/trio_ml/contribution_checks.h"
#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/session/control.h"
#include "apps/trio_ml/shard.h"
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

/// Tells whether a message is the upper aggregator's answer rather than a source's message.
[[nodiscard]] inline bool is_from_upstream(const Job& job, const MessageHead& message,
                                           const Endpoint& from) {
  if (!job.config.upstream.is_set() || !from.is_same_peer(job.config.upstream)) return false;
  return !message.header.extended || message.extension.type != MessageType::kContribution;
}

/// Copies the fields of the upper aggregator's result into the block's record.
void take_record_from_above(const Job& job, const Message& message, BlockRecord& block);

/// Tells whether a message of the upper aggregator carries the key that belongs to its type.
[[nodiscard]] inline bool is_key_of_upstream(const Job& job, const MessageHead& message) {
  const uint64_t key = message.extension.key;
  if (is_join_reply(message.extension.type)) return key == job.session.upstream_nonce();
  const uint64_t own = job.session.upstream_key();
  if (message.extension.type == MessageType::kReset) {
    // A bit flip on the way up may have changed the source instead of the key.
    return own != 0 && key == own && message.header.src_id == job.config.upstream_source;
  }
  return own != 0 && key == job.session.upstream_result_key();
}

/// Checks the seal of the upper aggregator's message.
template <microcode::Machine M>
[[nodiscard]] Verdict open_upstream_seal(const M& m, Job& job, const Message& message,
                                         const Arrival& arrival) {
  auth::MemberEnd& end = job.upward_end;
  const MessageType type = message.extension.type;
  const auth::Mode mode = wire::seal_mode(message.extension.flags);
  // An aggregator with another mode or secret cannot seal its refusal, so take this one unsealed.
  if (message.body.reason == Reason::kAuthentication && type == MessageType::kRefusal &&
      (!end.is_sealed() || job.session.believes_unsealed_upstream(m.now()))) {
    return kAccepted;
  }
  if (!end.is_sealed()) {
    return mode == auth::Mode::kNone ? kAccepted : Verdict(Outcome::kWrongAuthentication);
  }
  const bool lasting = is_join_reply(type) || type == MessageType::kReset;
  if (!message.header.extended || mode != (lasting ? auth::Mode::kHeader : end.mode())) {
    return Outcome::kWrongAuthentication;
  }
  const auto head = message_bytes(m, arrival).first(message.head_bytes);
  if (!lasting) return verdict_of(end.open(head, payload_of(m, sealed_message(message, arrival))));
  const bool opened =
      type == MessageType::kReset ? end.opens_reset(head) : end.opens_join_reply(head);
  if (!opened) return Outcome::kBadSeal;
  if (is_join_reply(type)) job.session.note_sealed_upstream_reply();
  return kAccepted;
}

namespace detail {

/// Returns the type of a message from the upper aggregator. One without an extension is a result.
[[nodiscard]] inline MessageType type_from_upstream(const Message& message) {
  return message.header.extended ? message.extension.type : MessageType::kResult;
}

/// Checks that this shard may take a message from the upper aggregator, and opens its seal.
template <microcode::Machine M>
[[nodiscard]] Verdict check_from_upstream(const M& m, const Shard& shard, Job& job,
                                          const Message& message, const Arrival& arrival) {
  // Replies to joins change the session: shard 0 only.
  if (is_join_reply(type_from_upstream(message)) && shard.index() != 0) {
    return Outcome::kNotExpectedHere;
  }
  if (!message.header.extended && (job.adopted() != 0 || !job.config.takes_plain_packets())) {
    return Outcome::kSessionRequired;
  }
  if (message.header.extended && !is_key_of_upstream(job, message) &&
      !TRIB_MUTANT(kUpperKeyUnchecked)) {
    return Outcome::kWrongKey;
  }
  // All lower aggregators open the upper one's seals.
  if (job.upward_end.is_sealed() && is_for_one_source(message) &&
      message.header.src_id != job.config.upstream_source) {
    return Outcome::kNotExpectedHere;
  }
  return open_upstream_seal(m, job, message, arrival);
}

/// Makes a block for a result to which no source of this aggregator has contributed, as if its
/// partial sum had been sent up.
/// @param epoch The window's when the message was checked.
/// @return the block, or a Found without one: there is no room for it, or the session has changed.
template <microcode::Machine M>
microcode::Subroutine<Found, M> make_block_of_others(M& m, Shard& shard, Job& job,
                                                     const Message& message, BlockName name,
                                                     uint32_t epoch) {
  m.release_payload({});  // Packets from the cooling buffers may not have left yet.
  job.window.free_cooling();
  bool superseded = false;
  const Found found = co_await m.issue(
      block_table_request<M>(microcode::XtxnKind::kHashInsert, job, name.block_id),
      [&job, &message, &superseded, name, epoch] {
        if (session_changed<M>(job, epoch)) return Found{};
        const auto made = job.window.insert(name, terms_of(job, message), /*clear_lanes=*/false);
        if (made.status == BlockWindow::Insert::kCreated) {
          superseded = made.superseded;
          if (!superseded) job.record.block_curr_cnt++;
          made.block->phase = BlockPhase::kSentUp;
          made.block->closing = true;
          note_record<M>(job, job.window.place_of(*made.block), name.block_id);
        }
        return job.window.find(name);
      });
  if (superseded) count(m, shard, Outcome::kBlockSuperseded);
  co_return found;
}

/// Takes a result or a receipt of the upper aggregator and publishes it to the sources.
template <microcode::Machine M>
microcode::Subroutine<void, M> take_result(M& m, Shard& shard, Job& job, const Message& message,
                                           const Arrival& arrival) {
  const bool is_receipt = message.extension.type == MessageType::kReceipt;
  // All lower aggregators open the upper one's seals, so it may be another one's receipt.
  if (is_receipt && has_owner_below(job, message)) {
    refuse(m, shard, Outcome::kNotExpectedHere);
    co_return;
  }
  const BlockName name{message.header.gen_id, message.header.block_id, message.header.extended};
  const uint32_t epoch = job.window.epoch();
  Found found = co_await look_up_block(m, job, name);
  // The upper aggregator went on without this one. Its result tells the sources that they are late.
  if (found.kind == Found::Kind::kAbsent && message.header.grad_cnt <= job.config.block_grad_max) {
    found = co_await make_block_of_others(m, shard, job, message, name, epoch);
  }
  const bool wanted = !session_changed<M>(job, epoch) && found.kind == Found::Kind::kActive &&
                      found.block->phase == BlockPhase::kSentUp &&
                      !check_against_block(*found.block, message).is_refused();
  // If two copies of the result arrive at once, only one of them takes the block.
  bool taken = false;
  if (wanted) {
    taken = co_await m.issue(
        microcode::Xtxn{microcode::XtxnKind::kFetchAndOp, found.block, 8},
        [block = found.block, incarnation = found.incarnation, is_receipt] {
          if (block->incarnation != incarnation || block->phase != BlockPhase::kSentUp)
            return false;
          block->phase = is_receipt ? BlockPhase::kPublishingReceipt : BlockPhase::kPublishing;
          return true;
        });
  }
  if (!taken) {
    refuse(m, shard, Outcome::kDuplicate);
    co_return;
  }
  BlockRecord& block = *found.block;
  m.release_payload({});  // The partial sum may not have left this buffer yet.
  if (!is_receipt) {
    int32_t* lanes = job.window.lanes(block.aggr_buffer);
    if constexpr (M::kSuspends) std::fill_n(lanes, block.grad_cnt, 0);
    co_await m.accumulate(lanes, arrival.offset + message.head_bytes, block.grad_cnt,
                          M::kSuspends || TRIB_MUTANT(kUpperResultAdded)
                              ? microcode::Accumulate::kAdd
                              : microcode::Accumulate::kFirst,
                          width_of(block.format));
    co_await m.finish_lanes(lanes, block.grad_cnt, {.width = width_of(block.format)});
  }
  take_record_from_above(job, message, block);
  count(m, shard, Outcome::kUpstreamResult, arrival.size);
  co_await publish(m, shard, job, block);
}

/// Ends the session, because the upper aggregator has lost it. Runs on shard 0 only.
template <microcode::Machine M>
void end_with_upstream(M& m, Shard& shard, Job& job) {
  job.session.end();
  count(m, shard, Outcome::kSessionEnded);
  shard.note(job, wire::kSourcesMax,
             {.kind = EventKind::kUpstreamLost, .at = m.now(), .address = job.config.upstream});
  note_end(shard, job, Reason::kSessionLost, m.now());
}

/// Ends the session, because the upper aggregator has lost it, and tells the sources. Every shard
/// tells its sources; shard 0, which gets resets in answer to its keep-alives, ends the session.
template <microcode::Machine M>
void end_lost_session(M& m, Shard& shard, Job& job) {
  Message notice = control_message(job, {}, MessageType::kNotice);
  notice.body.reason = Reason::kSessionLost;
  notice.body.group = job.config.upstream;
  notify_all(m, shard, job, notice);
  if (shard.index() != 0 || job.session.number() == 0) return;
  end_with_upstream(m, shard, job);
}

/// Forwards a notice of the upper aggregator to the sources, and names that aggregator if the
/// notice is about its sender. If the notice says that the session is lost, shard 0 ends it here.
template <microcode::Machine M>
void pass_notice_down(M& m, Shard& shard, Job& job, const Message& message) {
  Message notice = message;
  notice.header.job_id = job.config.id;
  notice.extension.key = job.result_key();
  const bool at_fault = names_aggregator(MessageType::kNotice, message.body.reason);
  if (at_fault && !notice.body.group.is_set()) notice.body.group = job.config.upstream;
  notify_all(m, shard, job, notice);
  if (!at_fault || shard.index() != 0 || job.session.number() == 0) return;
  if (message.body.reason == Reason::kSessionLost) return end_with_upstream(m, shard, job);
  shard.note(job, wire::kSourcesMax,
             {.kind = EventKind::kUpstreamLost,
              .reason = message.body.reason,
              .at = m.now(),
              .address = notice.body.group});
}

}  // namespace detail

/// Serves a message from the upper aggregator.
template <microcode::Machine M>
microcode::Subroutine<void, M> take_from_upstream(M& m, Shard& shard, Job& job,
                                                  const Arrival& arrival) {
  Message message;
  const auto status = read_message(m, arrival, message);
  if (status != wire::DecodeStatus::kOk) {
    refuse(m, shard, refusal_of(status));
    co_return;
  }
  if (const Verdict verdict = detail::check_from_upstream(m, shard, job, message, arrival);
      verdict.is_refused()) {
    refuse(m, shard, verdict.reason());
    co_return;
  }
  const MessageType type = detail::type_from_upstream(message);
  if (is_join_reply(type) && job.session.number() != 0) {
    // A late copy. Anybody can have recorded it, so it is no sign of life.
    m.drop(kUncounted);
    co_return;
  }
  job.session.upstream_watch().heard();
  switch (type) {
    case MessageType::kResult:
    case MessageType::kReceipt:
      co_await detail::take_result(m, shard, job, message, arrival);
      co_return;
    case MessageType::kWelcome:
      if (job.session.upstream_welcome(message, m.now())) {
        shard.note(
            job, wire::kSourcesMax,
            {.kind = EventKind::kUpstreamJoined, .at = m.now(), .address = job.config.upstream});
        welcome_all(m, shard, job);
      }
      break;
    case MessageType::kCookie:
      job.session.upstream_cookie(message.body.key);
      if (job.session.may_answer_upstream(m.now())) {
        send_control(m, job, upstream_join(job), job.config.upstream);
      }
      break;
    case MessageType::kPending:
      job.session.upstream_watch().take_pending(message.body);
      if (message.body.reason == Reason::kConfirm && job.session.may_answer_upstream(m.now())) {
        send_control(m, job, upstream_join(job), job.config.upstream);
      }
      break;
    case MessageType::kRefusal:
      job.session.upstream_refused(message.body, m.now());
      shard.note(job, wire::kSourcesMax,
                 {.kind = EventKind::kUpstreamRefused,
                  .reason = message.body.reason,
                  .value = message.body.value,
                  .at = m.now(),
                  .address = job.config.upstream});
      break;
    case MessageType::kReset:
      detail::end_lost_session(m, shard, job);
      break;
    case MessageType::kNotice:
      detail::pass_notice_down(m, shard, job, message);
      break;
    case MessageType::kHave:
      co_await repeat_missing(m, shard, job, message);
      break;
    default:
      break;
  }
  m.drop(kUncounted);
}

}  // namespace tributary::trio_ml
