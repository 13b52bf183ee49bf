// SPDX-License-Identifier: Apache-2.0
// The checks that the sources of a session agree: about their list of aggregators, and about the
// ranks that each of them serves.
#include <algorithm>
#include <mutex>

#include "apps/trio_ml/session/session.h"
#include "base/mutant.h"

namespace tributary::trio_ml {

using wire::Reason;

std::optional<uint32_t> Session::overlapping_rank(uint32_t source, const SourceMask& ranks,
                                                  Instant now) const {
  if (!config_.sources_are_aggregators || config_.ranks_overlap || number() != 0) return {};
  for (uint32_t other = 0; other < config_.sources; other++) {
    if (other == source || !is_pending(other, now)) continue;
    SourceMask both = ranks_of(other);
    for (uint32_t i = 0; i < both.size(); i++) both[i] &= ranks[i];
    if (both != SourceMask{}) return first_of(both);
  }
  return {};
}

std::optional<Session::JoinAnswer> Session::redirect(const wire::ControlBody& request,
                                                     Instant now) const {
  if (!config_.directory) return {};
  const auto table = [this] {
    const std::lock_guard lock(table_mutex_);
    return table_;
  }();
  if (table == nullptr) return pending(Reason::kWaitingForAggregators, now);
  if (request.list_digest == table->digest) return {};
  const auto count = static_cast<uint32_t>(table->entries.size());
  const uint32_t entry = std::min<uint32_t>(request.source, count - 1);
  JoinAnswer answer = refusal(Reason::kOtherList, table->entries[entry].weight);
  answer.body.source = static_cast<uint8_t>(entry);
  answer.body.sources = static_cast<uint16_t>(count);
  answer.body.key = table->digest;
  answer.body.group = table->entries[entry].address;
  return answer;
}

std::optional<Session::JoinAnswer> Session::refuse_other_list(Instant now) {
  const auto has_other = [this](const Member& member) {
    const bool same = member.pending_list == members_[0].pending_list &&
                      member.pending_share == members_[0].pending_share;
    return !same && !TRIB_MUTANT(kListUnchecked);
  };
  const auto end = members_.begin() + config_.sources;
  const auto found = std::find_if(members_.begin(), end, has_other);
  if (found == end) return {};
  if (lists_differ_since_ == Instant::never()) lists_differ_since_ = now;
  if (now - lists_differ_since_ < kListsSettleWithin) {
    return pending(Reason::kWaitingForPeers, now);
  }
  for (auto member = members_.begin(); member != end; ++member) member->list_refused = true;
  other_list_ = first_of(ranks_of(static_cast<uint32_t>(found - members_.begin())));
  JoinAnswer answer = refusal(Reason::kListsDiffer, other_list_);
  answer.to_all_pending = true;
  return answer;
}

}  // namespace tributary::trio_ml
