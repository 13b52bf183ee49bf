// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports of members: of a lower aggregator about its silent ranks, of a worker about itself.
///
/// Contract: Changes no block and no session.
/// Tests:    tests/apps/trio_ml/hierarchy_session_test.cc, session/member_report_test.cc
#pragma once

#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/shard.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

/// Passes a lower aggregator's notice of silent ranks to all sources. Ranks that are not below it
/// are left out.
template <microcode::Machine M>
void forward_notice(M& m, Shard& shard, Job& job, const Message& message) {
  const uint32_t source = message.header.src_id;
  if (!job.config.sources_are_aggregators || message.body.reason != wire::Reason::kPeerSilent ||
      job.config.on_silence() != Silence::kEnd || !job.take_reply_token(source, m.now())) {
    return refuse(m, shard, Outcome::kNotExpectedHere);
  }
  Message notice = control_message(job, message, MessageType::kNotice);
  notice.body = message.body;
  const SourceMask below = job.session.ranks_of(source);
  for (uint32_t i = 0; i < below.size(); i++) notice.body.mask[i] &= below[i];
  notify_all(m, shard, job, notice);
  refuse(m, shard, Outcome::kKeepAlive);  // It also shows that the source is alive.
}

/// Stores a worker's own counts. Only shard 0 does, to which their block_id 0 leads.
template <microcode::Machine M>
void take_report(M& m, Shard& shard, Job& job, const Message& message) {
  if (job.reports.empty()) return refuse(m, shard, Outcome::kNotExpectedHere);
  job.reports[message.header.src_id].take(message.body.report, m.now());
  refuse(m, shard, Outcome::kReport);
}

}  // namespace tributary::trio_ml
