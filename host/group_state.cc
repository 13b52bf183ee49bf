// SPDX-License-Identifier: Apache-2.0
#include "host/group_state.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/mutant.h"
#include "wire/trio_ml.h"

namespace tributary::host {

std::vector<size_t> GroupState::note_end(size_t channel, EndReason reason) {
  if (failure_) return {};
  failure_ = std::move(reason);
  // A restarted aggregator has lost the session, so it is lost, too.
  const bool is_lost =
      failure_->status == Status::kAggregatorGone || failure_->status == Status::kSessionLost;
  uint32_t& lost = failure_->lost_aggregator;
  const bool is_told = lost > 0 && lost != kNoAggregator;  // By another rank, which names it.
  if (failure_->status != Status::kClosed && !is_told) failure_->text += places_[channel].text;
  if (lost == kNoAggregator) {
    lost = 0;
  } else if (is_lost && !is_told) {
    lost = places_[channel].aggregator;
  }
  if (TRIB_MUTANT(kLossUntold)) failure_->lost_aggregator = 0;
  std::vector<size_t> others;
  for (size_t i = 0; i < places_.size(); i++) {
    if (i != channel && !TRIB_MUTANT(kOthersGoOn)) others.push_back(i);
  }
  return others;
}

void GroupState::set_cut(uint32_t gradients, uint32_t narrow_gradients,
                         const std::vector<uint32_t>& weights) {
  TRIB_ASSERT(weights.size() == places_.size());
  gradients_ = gradients;
  narrow_gradients_ = narrow_gradients;
  uint32_t last = 0;
  for (const ChannelPlace& place : places_) last = std::max(last, place.priority);
  for (uint32_t priority = 0; priority <= last; priority++) {
    std::vector<uint32_t> own = weights;
    for (size_t i = 0; i < own.size(); i++) {
      if (places_[i].priority != priority) own[i] = 0;
    }
    cutters_.emplace_back(std::move(own));
  }
}

void GroupState::fix_shares(std::vector<wire::ParameterShare> shares) {
  TRIB_ASSERT(shares.size() == places_.size());
  shares_ = std::move(shares);
}

std::vector<plan::Part> GroupState::cut_by_shares(uint64_t element_count) const {
  const uint64_t blocks = (element_count + gradients_ - 1) / gradients_;
  std::vector<plan::Part> parts;
  for (uint32_t channel = 0; channel < shares_.size(); channel++) {
    const wire::BlockRange range = wire::blocks_of(shares_[channel], blocks);
    const uint64_t first = range.first * gradients_;
    const uint64_t end = std::min(range.end * gradients_, element_count);
    if (range.count() == 0) continue;
    parts.push_back({.aggregator = channel, .element_first = first, .element_count = end - first});
  }
  if (parts.empty()) parts.push_back({});  // A tensor without elements.
  return parts;
}

std::vector<plan::Part> GroupState::cut(const Transfer& transfer) {
  TRIB_ASSERT(!cutters_.empty());
  if (!shares_.empty()) return cut_by_shares(transfer.element_count());
  const bool narrow = transfer.format == wire::ElementFormat::kBlockExponent16;
  TRIB_ASSERT(!narrow || narrow_gradients_ > 0);
  plan::PartCutter& cutter = cutters_[std::min<size_t>(transfer.priority, cutters_.size() - 1)];
  return cutter.cut(transfer.element_count(), narrow ? narrow_gradients_ : gradients_,
                    wire::gradient_bytes(transfer.format));
}

Outcome GroupState::merge(std::span<TensorPart> parts) const {
  Outcome outcome;
  bool failed = false;
  for (TensorPart& part : parts) {
    failed = failed || !goes_on_after(part.transfer.outcome.status);
    add_outcome(outcome, std::move(part.transfer.outcome), part.element_first);
  }
  if (failed) {
    outcome.status = failure_->status;
    outcome.text = failure_->text;
  }
  if (outcome.status == Status::kOk) {
    const Transfer& any = parts.front().transfer;
    outcome.warning = precision_warning(outcome, any.format, any.scale);
  }
  return outcome;
}

}  // namespace tributary::host
