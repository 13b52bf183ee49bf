// SPDX-License-Identifier: Apache-2.0
#include "server/control/begin_history.h"

#include <algorithm>

#include "apps/trio_ml/records.h"

namespace tributary::control {

void BeginHistory::add(const server::JobSnapshot& job, Instant now) {
  adopt_session(job, now);
  sources_.resize(job.sources.size());
  for (uint32_t i = 0; i < sources_.size(); i++) {
    const auto lacks = [i](const server::BlockSnapshot& block) {
      return trio_ml::contains(block.missing, i);
    };
    sources_[i].lacked = std::ranges::any_of(job.blocks, lacks);
    const auto& report = job.sources[i].report;
    if (!report) continue;
    for (uint32_t k = 0; k < trio_ml::kBeginsMax; k++) {  // Oldest first.
      const auto& begin = report->begins[(report->next_begin + k) % trio_ml::kBeginsMax];
      if (begin.number != 0 && begin.at > sources_[i].seen_until) take(i, begin);
    }
  }
  looked_at_ = now;
}

/// A core that has not noticed the new session yet still has the reports of the old one. All of
/// them have been seen if no session ran at the last call; otherwise some may have come since.
void BeginHistory::adopt_session(const server::JobSnapshot& job, Instant now) {
  const bool is_new = job.session != 0 && job.session != session_;
  if (is_new) {
    all_reduces_.clear();
    sources_.assign(job.sources.size(), {.seen_until = between_sessions_ ? looked_at_ : now});
    session_ = job.session;
  }
  between_sessions_ = job.session == 0;
}

void BeginHistory::take(uint32_t source, const trio_ml::Begin& begin) {
  sources_[source].seen_until = begin.at;
  sources_[source].number_max = std::max(sources_[source].number_max, begin.number);
  auto found = std::ranges::find(all_reduces_, begin.number, &AllReduce::number);
  if (found == all_reduces_.end()) {
    if (all_reduces_.size() == kAllReducesMax) all_reduces_.pop_front();
    all_reduces_.push_back({.number = begin.number, .first_at = begin.at, .begun_at = {}});
    found = std::prev(all_reduces_.end());
  }
  found->begun_at.resize(sources_.size());
  found->begun_at[source] = begin.at;
  found->first_at = std::min(found->first_at, begin.at);
}

/// Returns whether a source has begun a later all-reduce, but has not reported this one.
bool BeginHistory::is_left_out(const AllReduce& all_reduce) const {
  for (size_t i = 0; i < all_reduce.begun_at.size(); i++) {
    if (!all_reduce.begun_at[i] && sources_[i].number_max > all_reduce.number) return true;
  }
  return false;
}

std::optional<Duration> BeginHistory::lateness(const AllReduce& all_reduce, size_t source) const {
  if (const auto& at = all_reduce.begun_at[source]) return *at - all_reduce.first_at;
  const bool is_awaited = sources_[source].number_max > 0 && sources_[source].lacked;
  if (is_awaited) return std::max(looked_at_ - all_reduce.first_at, Duration());
  return {};
}

BeginTable BeginHistory::table() const {
  std::vector<const AllReduce*> columns;
  for (const AllReduce& all_reduce : all_reduces_) {
    if (!is_left_out(all_reduce)) columns.push_back(&all_reduce);
  }
  std::ranges::sort(columns, {}, &AllReduce::number);
  BeginTable table;
  table.lateness.resize(sources_.size());
  for (const AllReduce* column : columns) {
    table.numbers.push_back(column->number);
    for (size_t i = 0; i < sources_.size(); i++) {
      table.lateness[i].push_back(lateness(*column, i));
    }
  }
  return table;
}

}  // namespace tributary::control
