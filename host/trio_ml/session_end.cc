// SPDX-License-Identifier: Apache-2.0
#include "host/trio_ml/session_end.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"

namespace tributary::host {

using wire::Reason;

namespace {

/// Leaves sent; closing takes 15 ms. Assumed.
constexpr uint32_t kLeaveCount = 5;
/// The time from the first to the second one. It doubles each time.
constexpr Duration kLeaveEvery = milliseconds(1);
/// An aggregator counts as alive this long after its last packet, or half the deadline.
constexpr Duration kAliveFor = milliseconds(2000);
/// A notice that an upper aggregator is silent is repeated every half second while that is so.
/// Assumed: the loss of three in a row is not chance.
constexpr Duration kUpperNoticeFor = milliseconds(2000);

/// Returns the ranks that a notice is about.
std::string subject_of(const wire::ControlBody& notice, uint32_t rank_base) {
  const std::string source = fmt::format("rank {}", rank_base + notice.source);
  return ranks_text(notice.mask, source.c_str());
}

}  // namespace

// --- The reason, and the leaves ---

void SessionEnd::end(EndReason reason, bool sends_leaves) {
  TRIB_ASSERT(!ended_);
  if (sends_leaves) leaves_left_ = kLeaveCount;
  ended_ = true;
  reason_ = std::move(reason);
}

void SessionEnd::on_leave_sent(Instant now) {
  leave_at_ = now + kLeaveEvery * (int64_t{1} << (kLeaveCount - leaves_left_));
  leaves_left_--;
}

// --- The deadline ---

void SessionEnd::note_have(uint64_t position, uint64_t base, const wire::SourceMask& sources,
                           bool upstream, bool receive_only) {
  // Keep the lowest position: it is the first to reach its deadline.
  if (position > have_.position && have_.position >= base) return;
  have_ = {position, sources, upstream, receive_only};
  if (!receive_only || !config_.source) return;
  have_.sources[*config_.source / 64] |= uint64_t{1} << (*config_.source % 64);
}

void SessionEnd::note_upper_silent(const wire::ControlBody& notice, Instant now) {
  upper_ = {notice.group, microseconds(notice.timeout_us), now};
}

std::optional<EndReason> SessionEnd::check_deadline(const Oldest& oldest, Instant last_heard_at,
                                                    const SessionTerms& terms, Instant now) const {
  const Duration waited = now - oldest.first_sent_at;
  if (TRIB_MUTANT(kDeadlineIgnored) || waited < config_.deadline) return {};
  return waits_for(oldest, now - last_heard_at, std::min(kAliveFor, config_.deadline / 2), terms,
                   now);
}

EndReason SessionEnd::waits_for(const Oldest& oldest, Duration silent_for, Duration silent_after,
                                const SessionTerms& terms, Instant now) const {
  const Duration waited = now - oldest.first_sent_at;
  if (silent_for > silent_after) return aggregator_silent(config_.server, silent_for);
  if (upper_.upper.is_set() && now - upper_.heard_at <= kUpperNoticeFor) {
    return upper_aggregator_silent(config_, upper_.upper,
                                   upper_.silent_for + (now - upper_.heard_at));
  }
  std::string ranks;
  if (have_.position == oldest.position) {
    if (config_.source && !contains(have_.sources, *config_.source)) {
      const uint32_t bytes =
          wire::head_bytes_max(config_.auth.mode) + terms.gradients * wire::kGradientBytes;
      return own_packets_missing(config_, bytes, oldest.position, waited);
    }
    ranks = missing_ranks(have_.sources, terms.sources, terms.rank_base);
    const bool waits_for_all = terms.straggler_timeout == Duration() && !have_.upstream;
    if (ranks.empty() && have_.receive_only && waits_for_all) {
      return only_receives(config_, oldest.position, waited);
    }
  }
  if (ranks.empty()) {
    return unknown_rank_missing(config_.server, have_.upstream, oldest.position, waited,
                                silent_for);
  }
  return ranks_missing(config_.server, ranks, oldest.position, waited);
}

SourceSet SessionEnd::missing_at(uint64_t position, const SessionTerms& terms) const {
  SourceSet missing{};
  if (have_.position != position) return missing;
  for (uint32_t source = 0; source < terms.sources; source++) {
    const uint32_t rank = terms.rank_base + source;
    if (contains(have_.sources, source) || rank >= wire::kSourcesMax) continue;
    missing[rank / 64] |= uint64_t{1} << (rank % 64);
  }
  return missing;
}

Instant SessionEnd::deadline_of(Instant first_sent_at) const {
  return TRIB_MUTANT(kDeadlineIgnored) ? Instant::never() : first_sent_at + config_.deadline;
}

// --- Notices, and sums of another tensor ---

std::optional<EndReason> SessionEnd::on_notice(const wire::Message& notice,
                                               std::optional<uint64_t> position,
                                               std::optional<uint64_t> oldest,
                                               const SessionTerms& terms) const {
  const wire::ControlBody& body = notice.body;
  if (body.reason == Reason::kSessionLost) return session_lost(config_.server, body.group);
  if (body.reason == Reason::kServerStopped) return aggregator_stopped(config_.server, body.group);
  if (body.reason == Reason::kJobRemoved) return job_removed(config_, body.group);
  if (body.reason == Reason::kEvicted) return evicted(config_, body.group);
  if (body.reason == Reason::kPeerSilent && oldest) {
    return peer_silent(subject_of(body, terms.rank_base), body.group, milliseconds(body.value),
                       *oldest);
  }
  // A lost aggregator ends the job, also for a rank that does not wait here.
  const bool names_aggregator = body.value > 0 && body.value <= config_.aggregators.size();
  if (body.reason == Reason::kPeerLeft && names_aggregator) {
    return peer_left(config_, subject_of(body, terms.rank_base), body.value, position.value_or(0));
  }
  if (!position) return {};  // A late duplicate about a position that is done.
  switch (body.reason) {
    case Reason::kPastCache:
      return past_cache(config_, *position);
    case Reason::kNotParameters:
      return not_parameters(config_, body.value);
    case Reason::kPeerLeft:
      return peer_left(config_, subject_of(body, terms.rank_base), body.value, *position);
    case Reason::kMismatch: {
      const wire::TensorTerms expected{.format = notice.extension.format,
                                       .tensor_elements = notice.extension.tensor_elements,
                                       .scale_bits = notice.extension.scale_bits};
      return mismatch(subject_of(body, terms.rank_base), body.given,
                      ranks_text(notice.mask, "another rank"), expected, *position);
    }
    default:  // Permanent stragglers end nothing: see PermanentStragglers.
      return {};
  }
}

std::optional<EndReason> SessionEnd::on_other_tensor(uint64_t position, const wire::Message& sum,
                                                     const wire::TensorTerms& ours, Instant sent_at,
                                                     Instant now) {
  const wire::TensorTerms theirs{.format = sum.extension.format,
                                 .tensor_elements = sum.extension.tensor_elements,
                                 .scale_bits = sum.extension.scale_bits};
  const bool seen = other_tensor_.position == position && other_tensor_.terms == theirs &&
                    other_tensor_.grad_cnt == sum.header.grad_cnt;
  if (!seen) {
    other_tensor_ = {position, theirs, sum.header.grad_cnt, now};
    return {};
  }
  if (sent_at <= other_tensor_.first_heard_at) return {};  // Not probed since then.
  return mismatch(fmt::format("rank {}", config_.rank), ours, ranks_text(sum.mask, "another rank"),
                  theirs, position);
}

}  // namespace tributary::host
