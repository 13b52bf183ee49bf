// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/recording.h"

#include "wire/trio_ml.h"

namespace tributary::trio_ml {
namespace {

recorder::Kind kind_of(EventKind kind) {
  switch (kind) {
    case EventKind::kRankJoined:
      return recorder::Kind::kRankJoined;
    case EventKind::kRankWithdrawn:
      return recorder::Kind::kRankWithdrawn;
    case EventKind::kJoinRefused:
      return recorder::Kind::kJoinRefused;
    case EventKind::kSessionStarted:
      return recorder::Kind::kSessionStarted;
    case EventKind::kRankLeft:
      return recorder::Kind::kRankLeft;
    case EventKind::kSessionEnded:
      return recorder::Kind::kSessionEnded;
    case EventKind::kStraggler:
      return recorder::Kind::kStraggler;
    case EventKind::kPermanent:
      return recorder::Kind::kPermanent;
    case EventKind::kReturned:
      return recorder::Kind::kReturned;
    case EventKind::kSilenceWaited:
      return recorder::Kind::kSilenceWaited;
    case EventKind::kSilenceExcluded:
      return recorder::Kind::kSilenceExcluded;
    case EventKind::kSilenceEnded:
      return recorder::Kind::kSilenceEnded;
    case EventKind::kResumed:
      return recorder::Kind::kResumed;
    case EventKind::kUpstreamJoined:
      return recorder::Kind::kUpstreamJoined;
    case EventKind::kUpstreamRefused:
      return recorder::Kind::kUpstreamRefused;
    case EventKind::kUpstreamLost:
      return recorder::Kind::kUpstreamLost;
    case EventKind::kUpstreamSilent:
      return recorder::Kind::kUpstreamSilent;
    case EventKind::kUpstreamHeard:
      return recorder::Kind::kUpstreamHeard;
  }
  return recorder::Kind::kNone;
}

}  // namespace

uint32_t first_rank_below(const Job& job, uint32_t source) {
  const SourceMask ranks = job.session.ranks_of(source);
  if (ranks == SourceMask{} || job.config.ranks_overlap) return job.config.rank_base + source;
  return first_of(ranks);
}

void begin_run(const Shard& shard, recorder::Kind kind, const Job& job, recorder::BlockRun& run,
               uint32_t rank, uint32_t block_id, Instant now) {
  recorder::Writer* const writer = shard.record_writer();
  if (writer == nullptr) return run.begin_unrecorded(block_id);
  writer->begin(run, kind, job.config.id, rank, block_id, now);
}

void record_refusal(Shard& shard, Outcome why, const Job* job, const wire::TrioMlFields& header,
                    Instant now) {
  recorder::Writer* const writer = shard.record_writer();
  if (writer == nullptr) return;
  if (!shard.take_refusal_token(now)) return writer->leave_out();
  const uint32_t rank = job == nullptr ? header.src_id : recorded_rank(*job, header.src_id);
  writer->note({.kind = recorder::Kind::kRefused,
                .detail = static_cast<uint8_t>(why),
                .job = header.job_id,
                .rank = static_cast<uint16_t>(rank),
                .block = header.block_id,
                .count = 1},
               now);
}

recorder::Event recorded(const Event& event) {
  recorder::Event recorded{.kind = kind_of(event.kind),
                           .detail = static_cast<uint8_t>(event.reason),
                           .job = event.job_id};
  if (event.ranks != SourceMask{}) recorded.rank = static_cast<uint16_t>(first_of(event.ranks));
  if (event.kind == EventKind::kStraggler) {
    recorded.block = event.value;
    recorded.count = 1;
  } else {
    recorded.value = event.value;
  }
  return recorded;
}

std::vector<recorder::Label> record_labels() {
  std::vector<recorder::Label> labels;
  recorder::add_labels(labels, recorder::Domain::kOutcome, static_cast<Outcome>(kOutcomeCount - 1));
  recorder::add_labels(labels, recorder::Domain::kReason,
                       static_cast<wire::Reason>(wire::kReasonLast));
  return labels;
}

}  // namespace tributary::trio_ml
