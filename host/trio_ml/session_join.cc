// SPDX-License-Identifier: Apache-2.0
#include "host/trio_ml/session_join.h"

#include <algorithm>

#include "base/mutant.h"

namespace tributary::host {

using wire::ControlBody;
using wire::MessageType;
using wire::Reason;

namespace {

constexpr Duration kJoinEvery = milliseconds(50);

}  // namespace

SessionJoin::SessionJoin(const CommunicatorConfig& config, Instant began_at)
    : config_(config), started_at_(began_at), request_at_(began_at), period_at_(began_at) {
  terms_.gradients = config.gradients;
  terms_.channels = config.threads;
}

ControlBody SessionJoin::take_request(Instant now) {
  if (!asked_at_) asked_at_ = now;
  if (now >= period_at_) {
    period_at_ = now + kJoinEvery;
    triggered_requests_ = 0;
  }
  request_at_ = period_at_;
  ControlBody body;
  body.key = cookie_;
  body.value = static_cast<uint32_t>(config_.auth.mode);
  body.sources = static_cast<uint16_t>(config_.world);
  body.window = config_.window;
  body.gradients_max = terms_.gradients;
  body.list_digest = config_.list_digest;
  body.asynchronous = config_.asynchronous;
  body.receipts = true;
  body.share = config_.share;
  body.source = static_cast<uint8_t>(redirection_.size());
  if (config_.threads > 1) body.channels = static_cast<uint8_t>(config_.threads);
  return body;
}

/// Makes the next request due now, at most kTriggeredRequestsMax times between two periodic ones.
void SessionJoin::trigger_request(Instant now) {
  if (triggered_requests_ == kTriggeredRequestsMax) return;
  triggered_requests_++;
  request_at_ = now;
}

SessionJoin::Reply SessionJoin::on_reply(const wire::Message& message, Instant now) {
  const ControlBody& body = message.body;
  if (message.extension.type == MessageType::kWelcome) {
    accept(message);
    return Reply::kWelcomed;
  }
  if (message.extension.type == MessageType::kCookie) {
    cookie_ = body.key;
    trigger_request(now);
    return Reply::kWaits;
  }
  if (message.extension.type == MessageType::kPending) {
    pending_ = {.reason = body.reason,
                .joined = body.mask,
                .sources = body.sources,
                .rank_base = body.value,
                .upper = body.group,
                .silent_for = microseconds(body.timeout_us)};
    for (uint32_t i = 0; i < body.mask.size(); i++) came_[i] |= body.mask[i];
    if (body.reason == Reason::kConfirm) trigger_request(now);
    return Reply::kWaits;
  }
  if (body.reason == Reason::kOtherList) return on_other_list(body, now);
  if (body.reason == Reason::kTooManyGradients && config_.gradients_flexible && body.value > 0) {
    if (body.value >= terms_.gradients) return Reply::kWaits;  // It answers an earlier request.
    terms_.gradients = body.value;
    trigger_request(now);
    return Reply::kWaits;
  }
  refused_ = true;
  refusal_ = body.reason;
  return Reply::kRefused;
}

/// Takes one entry of the directory's list, and asks for the next one.
SessionJoin::Reply SessionJoin::on_other_list(const ControlBody& body, Instant now) {
  if (body.sources == 0 || body.sources > kAggregatorsMax || !body.group.is_set()) {
    return Reply::kRefused;
  }
  if (body.key != redirection_digest_) redirection_.clear();  // The list has changed meanwhile.
  redirection_digest_ = body.key;
  if (body.source != redirection_.size()) return Reply::kWaits;  // A late copy.
  redirection_.push_back(
      {.name = body.group.to_string(), .weight = body.value, .address = body.group});
  if (redirection_.size() == body.sources) return Reply::kRedirected;
  request_at_ = now;  // Each answer brings an entry, so this ends.
  return Reply::kWaits;
}

void SessionJoin::accept(const wire::Message& welcome) {
  const ControlBody& body = welcome.body;
  terms_.key = body.key;
  terms_.result_key = body.result_key;
  terms_.window = std::clamp(config_.window, 1U, std::max(body.window, 1U));
  terms_.gradients = std::min(terms_.gradients, std::max(body.gradients_max, 1U));
  terms_.narrow_gradients = std::min(body.narrow_max, 2 * terms_.gradients);
  terms_.job_window = body.job_window;
  terms_.channels = std::clamp<uint32_t>(body.channels, 1, config_.threads);
  terms_.server_ports = 1U << body.port_bits;
  terms_.straggler_timeout = microseconds(body.timeout_us);
  terms_.rank_base = body.value;
  terms_.sources = body.sources;
  terms_.salt = {body.salt_high, body.salt_low};
  terms_.group = body.group;
  terms_.reports = body.reports;
  terms_.names_receiver = body.names_receiver;
  joined_ = true;
}

std::optional<EndReason> SessionJoin::check_deadline(Instant now) const {
  const Duration waited = now - started_at_;
  if (TRIB_MUTANT(kDeadlineIgnored) || waited < config_.deadline) return {};
  return waits_for(waited);
}

std::optional<std::string> SessionJoin::take_notice(Instant now) {
  if (!notice_at_) {
    // A join that tries another list goes on with the time of the first one.
    notice_at_ = started_at_ + kNoticeAfter;
    while (*notice_at_ < now) *notice_at_ = *notice_at_ + kNoticeEvery;
  }
  if (now < *notice_at_) return {};
  *notice_at_ = *notice_at_ + kNoticeEvery;
  return waits_for(now - started_at_).text;
}

/// Returns the ranks to blame for a failed join: those that never joined. If all joined at least
/// once, returns those absent at the deadline.
std::string SessionJoin::absent_ranks() const {
  std::string never = missing_ranks(came_, pending_.sources, pending_.rank_base);
  if (!never.empty()) return never;
  return missing_ranks(pending_.joined, pending_.sources, pending_.rank_base);
}

EndReason SessionJoin::waits_for(Duration waited) const {
  switch (pending_.reason) {
    case Reason::kNone:
      return no_answer(config_.server, waited, other_version_);
    case Reason::kRankTaken:
      return rank_taken(config_);
    case Reason::kSessionRunning:
      return job_in_use(config_);
    case Reason::kWaitingForAggregators:
      return no_aggregators(config_);
    case Reason::kPlainClients:
      return job_in_use_by_plain_clients(config_);
    case Reason::kUpstreamSilent:
      return upper_aggregator_silent(config_, pending_.upper, pending_.silent_for);
    case Reason::kWaitingForUpstream:
      if (pending_.upper.is_set()) return others_not_joined(config_, pending_.upper, waited);
      [[fallthrough]];  // An older aggregator.
    default:
      return ranks_not_joined(config_, absent_ranks(), waited,
                              pending_.reason == Reason::kWaitingForUpstream);
  }
}

Instant SessionJoin::next_deadline() const {
  if (TRIB_MUTANT(kDeadlineIgnored)) return request_at_;
  return std::min(request_at_, started_at_ + config_.deadline);
}

}  // namespace tributary::host
