// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ends the membership of sources that have not left by themselves: the server ends, or an operator
/// removes a job or a source.
///
/// Threads: As the shard. The core calls these between two bursts, never for a packet.
/// Tests:   tests/apps/trio_ml/session/control_test.cc, membership_end_test.cc
#pragma once

#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/session/control.h"
#include "apps/trio_ml/shard.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

/// Tells every member and every pending worker that the server or the job ends. Further calls tell
/// those that have not left yet. Runs on shard 0 only.
/// @param reason kServerStopped or kJobRemoved.
template <microcode::Machine M>
void end_memberships(M& m, Shard& shard, Job& job, Reason reason) {
  job.adopt(job.session.number());
  Message message = control_message(job, {}, MessageType::kNotice);
  message.body.reason = reason;
  if (job.adopted() != 0 && !job.ending) {
    count(m, shard, Outcome::kSessionEnded);
    note_end(shard, job, reason, m.now());
  }
  job.ending = reason;
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (job.adopted() != 0 && !job.session.has_left(source)) {
      message.extension.type = MessageType::kNotice;
      message.extension.key = job.result_key();
      send_control(m, job, message, job.session.address_of(source));
      count(m, shard, Outcome::kNoticeSent);
    }
    const uint64_t nonce = job.session.pending_nonce(source, m.now());
    if (nonce == 0) continue;
    message.extension.type = MessageType::kRefusal;
    message.extension.key = nonce;
    message.header.src_id = static_cast<uint8_t>(source);
    send_control(m, job, message, job.session.address_of(source));
    count(m, shard, Outcome::kNoticeSent);
  }
  if (job.session.upstream_key() != 0) {
    send_control(m, job, upstream_message(job, MessageType::kLeave), job.config.upstream);
  }
}

/// The part of an eviction that shard 0 decides.
struct Eviction {
  Session::Withdrawal state = Session::Withdrawal::kUnknown;  ///< The source's state before it.
  uint32_t session = 0;                                       ///< 0: none runs.
  uint64_t key = 0;                                           ///< See Job::evict().
};

/// Removes a member or a pending worker from the session, and tells it. The session goes on without
/// it, as after a leave. Runs on shard 0; drop_evicted() then runs on all shards.
template <microcode::Machine M>
Eviction evict_source(M& m, Shard& shard, Job& job, uint32_t source) {
  job.adopt(job.session.number());
  Message message = control_message(job, {}, MessageType::kNotice);
  message.header.src_id = static_cast<uint8_t>(source);
  message.body.reason = Reason::kEvicted;
  message.body.source = static_cast<uint8_t>(source);
  const uint64_t nonce = job.session.pending_nonce(source, m.now());
  Eviction eviction{.session = job.session.number(), .key = job.session.key_of_evicted(source)};
  eviction.state = job.session.evict(source, m.now());
  if (eviction.state == Session::Withdrawal::kUnknown) return eviction;
  const bool was_member = eviction.state == Session::Withdrawal::kMember;
  shard.note(job, source,
             {.kind = was_member ? EventKind::kRankLeft : EventKind::kRankWithdrawn,
              .reason = Reason::kEvicted,
              .at = m.now(),
              .address = job.session.address_of(source)});
  if (!was_member) {
    message.extension.type = MessageType::kRefusal;
    message.extension.key = nonce;
  }
  send_control(m, job, message, job.session.address_of(source));
  count(m, shard, Outcome::kNoticeSent);
  if (was_member) {
    const Message leave_message = upstream_message(job, MessageType::kLeave);
    if (job.session.leave(source)) end_upstream(m, shard, job, leave_message, Reason::kEvicted);
  }
  return eviction;
}

/// Refuses the further packets of an evicted source on this shard, and forgets its address. Does
/// nothing if another session has begun since. @return whether this shard knew the source's
/// address.
inline bool drop_evicted(Job& job, uint32_t source, const Eviction& eviction) {
  if (job.session.number() != eviction.session) return false;
  job.adopt(eviction.session);
  const bool known = job.sources[source].address.is_set();
  if (eviction.session == 0 || eviction.state == Session::Withdrawal::kMember) {
    job.evict(source, eviction.key);
  }
  return known;
}

}  // namespace tributary::trio_ml
