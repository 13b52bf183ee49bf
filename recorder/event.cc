// SPDX-License-Identifier: Apache-2.0
#include "recorder/event.h"

namespace tributary::recorder {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return nullptr;
    case Kind::kArrived:
      return "arrived";
    case Kind::kCompleted:
      return "completed";
    case Kind::kDegraded:
      return "degraded";
    case Kind::kSentUp:
      return "sent_up";
    case Kind::kTimedOut:
      return "timed_out";
    case Kind::kSent:
      return "sent";
    case Kind::kResent:
      return "resent";
    case Kind::kProbed:
      return "probed";
    case Kind::kResult:
      return "result";
    case Kind::kDegradedResult:
      return "degraded_result";
    case Kind::kRefused:
      return "refused";
    case Kind::kRankJoined:
      return "rank_joined";
    case Kind::kRankWithdrawn:
      return "rank_withdrawn";
    case Kind::kJoinRefused:
      return "join_refused";
    case Kind::kSessionStarted:
      return "session_started";
    case Kind::kRankLeft:
      return "rank_left";
    case Kind::kSessionEnded:
      return "session_ended";
    case Kind::kStraggler:
      return "straggler";
    case Kind::kPermanent:
      return "straggler_permanent";
    case Kind::kReturned:
      return "straggler_returned";
    case Kind::kUpstreamJoined:
      return "upstream_joined";
    case Kind::kUpstreamRefused:
      return "upstream_refused";
    case Kind::kUpstreamLost:
      return "upstream_lost";
    case Kind::kNoticed:
      return "noticed";
    case Kind::kStalled:
      return "stalled";
    case Kind::kSilenceWaited:
      return "silence_waited";
    case Kind::kSilenceExcluded:
      return "silence_excluded";
    case Kind::kSilenceEnded:
      return "silence_ended";
    case Kind::kResumed:
      return "heard_again";
    case Kind::kUpstreamSilent:
      return "upstream_silent";
    case Kind::kUpstreamHeard:
      return "upstream_heard";
  }
  return nullptr;
}

bool ends_blocks(Kind kind) {
  return kind == Kind::kCompleted || kind == Kind::kDegraded || kind == Kind::kResult ||
         kind == Kind::kDegradedResult;
}

bool is_wait(Kind kind) {
  return kind == Kind::kStalled || kind == Kind::kSilenceWaited || kind == Kind::kSilenceExcluded ||
         kind == Kind::kSilenceEnded || kind == Kind::kUpstreamSilent;
}

Domain domain_of(Kind kind, bool of_worker) {
  if (static_cast<uint32_t>(kind) < kRunKinds || is_wait(kind)) return Domain::kNone;
  if (kind == Kind::kRefused) return Domain::kOutcome;
  return of_worker && kind == Kind::kSessionEnded ? Domain::kStatus : Domain::kReason;
}

}  // namespace tributary::recorder
