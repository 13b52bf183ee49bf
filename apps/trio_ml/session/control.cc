// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/session/control.h"

#include "apps/trio_ml/upstream.h"
#include "base/mutant.h"

namespace tributary::trio_ml {
namespace {

/// Keeps the outcome of a join for `tributary who`. Ignores answers that healthy jobs cause.
void keep_outcome(Job& job, uint32_t source, const Session::JoinAnswer& answer,
                  const Endpoint& from, Instant now) {
  const Reason reason = answer.body.reason;
  if (reason == Reason::kRankTaken || reason == Reason::kOtherList) return;
  const bool is_accepted = answer.reply != MessageType::kRefusal && reason != Reason::kPlainClients;
  job.keep_join_outcome(source, is_accepted ? Reason::kNone : reason, from, now);
}

}  // namespace

Message upstream_message(const Job& job, MessageType type) {
  Message message;
  message.header.job_id = job.config.id;
  message.header.extended = true;
  message.header.src_id = static_cast<uint8_t>(job.config.upstream_source);
  message.extension.type = type;
  message.extension.key = job.session.upstream_key();
  return message;
}

Message upstream_join(const Job& job) {
  Message message = upstream_message(job, MessageType::kJoin);
  message.extension.key = job.session.upstream_nonce();
  message.body = job.session.upstream_request();
  return message;
}

Message upstream_probe(const Job& job, const MessageHead& about, uint32_t block_id, uint8_t flags,
                       Instant now) {
  Message probe = upstream_message(job, MessageType::kProbe);
  probe.header.block_id = block_id;
  probe.header.gen_id = about.header.gen_id;
  probe.header.grad_cnt = about.header.grad_cnt;
  probe.extension.flags = wire::kFlagRetransmission | flags;
  probe.extension.tensor_elements = low_us(now);
  return probe;
}

bool is_member(const Job& job, const MessageHead& message) {
  return job.adopted() != 0 && message.extension.key == job.key_of(message.header.src_id);
}

void take_record_from_above(const Job& job, const Message& message, BlockRecord& block) {
  if (TRIB_MUTANT(kUpperCountLost)) return;
  block.degraded = message.header.degraded;
  block.final = message.header.final;
  block.src_cnt =
      message.header.src_cnt == 0 ? uint16_t{wire::kSourcesMax} : message.header.src_cnt;
  block.exponent = message.extension.exponent;
  block.flags = message.extension.flags;
  block.ranks = (message.extension.flags & wire::kFlagSourceMask) != 0
                    ? message.mask
                    : first_sources(job.config.ranks());
}

void note_end(Shard& shard, const Job& job, Reason reason, Instant now) {
  shard.note(job, wire::kSourcesMax,
             {.kind = EventKind::kSessionEnded, .reason = reason, .at = now});
}

Session::JoinAnswer take_join(Shard& shard, Job& job, const Message& message, const Endpoint& from,
                              Instant now) {
  const uint32_t source = message.header.src_id;
  const bool ran = job.session.number() != 0;
  const bool was_pending = job.session.pending_nonce(source, now) == message.extension.key;
  const bool was_silent = ran && job.session.is_silent(source, now);
  Session::JoinAnswer answer = job.session.join(message, from, now);
  keep_outcome(job, source, answer, from, now);
  if (answer.reply == MessageType::kPending && answer.body.reason == Reason::kRankTaken &&
      job.session.note_taken(source, message.extension.key)) {
    shard.note(job, source,
               {.kind = EventKind::kJoinRefused,
                .reason = Reason::kRankTaken,
                .at = now,
                .address = from});
  }
  if (ran && (answer.started || job.session.number() == 0)) {
    note_end(shard, job, Reason::kPeerSilent, now);  // The newcomer replaces the last member.
  }
  if (answer.reply == MessageType::kRefusal) {
    // A rank asks for the entries of a directory's list one by one.
    if (answer.body.reason == Reason::kOtherList && message.body.source != 0) return answer;
    shard.note(job, source,
               {.kind = EventKind::kJoinRefused,
                .reason = answer.body.reason,
                .value = answer.body.value,
                .at = now,
                .address = from});
  } else if (!was_pending &&
             (answer.started || job.session.pending_nonce(source, now) == message.extension.key)) {
    if (was_silent) {  // The newcomer takes the place of a member that is gone.
      shard.note(job, source,
                 {.kind = EventKind::kRankLeft, .reason = Reason::kPeerSilent, .at = now});
    }
    shard.note(job, source, {.kind = EventKind::kRankJoined, .at = now, .address = from});
  }
  return answer;
}

}  // namespace tributary::trio_ml
