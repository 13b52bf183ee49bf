// SPDX-License-Identifier: Apache-2.0
// The session of a lower aggregator: its join at the upper one.
#include <algorithm>

#include "apps/trio_ml/session/session.h"

namespace tributary::trio_ml {

using wire::MessageType;
using wire::Reason;

bool Session::all_take_receipts() const {
  for (uint32_t source = 0; source < config_.sources; source++) {
    if (!takes_receipts(source)) return false;
  }
  return true;
}

uint32_t Session::any_lost_aggregator() const {
  for (uint32_t source = 0; source < config_.sources; source++) {
    if (const uint32_t lost = lost_aggregator(source); lost != 0) return lost;
  }
  return 0;
}

/// Answers a source whose peers have all joined: they wait for the upper aggregator, or it has
/// refused this one.
Session::JoinAnswer Session::ask_upstream(Instant now) {
  if (const Reason reason = upstream_refusal(now); reason != Reason::kNone) {
    JoinAnswer answer = refusal(reason, upstream_refusal_.value);
    if (names_aggregator(answer.reply, reason)) answer.body.group = upstream_refusal_.group;
    return answer;
  }
  JoinAnswer answer = pending(Reason::kWaitingForUpstream, now);
  answer.join_upstream = now - upstream_asked_at_ >= kUpstreamJoinEvery;
  if (answer.join_upstream) {
    upstream_asked_at_ = now;
    upstream_watch_.asked({}, now);
  }
  upstream_watch_.describe(answer.body, config_.upstream, now);
  upstream_first_asked_at_ = std::min(upstream_first_asked_at_, now);
  return answer;
}

void Session::upstream_refused(const wire::ControlBody& body, Instant now) {
  upstream_refusal_ = body;
  if (!body.group.is_set()) upstream_refusal_.group = config_.upstream;
  upstream_refused_at_ = now;
  // The next join has another nonce, so that recorded copies of this refusal do not answer it.
  upstream_nonce_ = next_upstream_nonce();
  upstream_cookie_ = 0;
}

bool Session::upstream_welcome(const wire::Message& message, Instant now) {
  upstream_refusal_ = {};
  if (number() != 0 || draining_) return false;
  if (message.extension.key != upstream_nonce_ || !all_pending(now)) return false;
  upstream_window_ = message.body.window;
  upstream_gradients_max_ = message.body.gradients_max;
  upstream_narrow_max_ = message.body.narrow_max;
  upstream_channels_ = message.body.channels;
  upstream_result_key_.store(message.body.result_key, std::memory_order_relaxed);
  upstream_salt_high_.store(message.body.salt_high, std::memory_order_relaxed);
  upstream_salt_low_.store(message.body.salt_low, std::memory_order_relaxed);
  // Release: a shard that reads this key also reads the values above.
  upstream_key_.store(message.body.key, std::memory_order_release);
  start(now);
  return true;
}

}  // namespace tributary::trio_ml
