// SPDX-License-Identifier: Apache-2.0
#include "host/join_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/auto_terms.h"

namespace tributary::host {

JoinPlan::JoinPlan(const CommunicatorConfig& config) : common_(config) {
  for (const Aggregator& each : config.aggregators) {
    if (each.weight > 0) aggregators_.push_back(each);
  }
  if (aggregators_.empty()) {
    aggregators_.push_back({.name = config.server.to_string(), .address = config.server});
  }
  // A single aggregator may have several names, unless a directory gave it.
  if (config.aggregators.size() > 1) common_.list_digest = list_digest(config.aggregators);
  common_.aggregators = aggregators_;  // By their places in the texts.
  for (const Aggregator& each : aggregators_) weight_sum_ += each.weight;
  common_.threads *= config.priorities;  // Channels.
}

void JoinPlan::set_gradients(uint32_t gradients) {
  common_.gradients = gradients;
  common_.gradients_flexible = true;
}

CommunicatorConfig JoinPlan::first_channel(size_t aggregator) const {
  CommunicatorConfig config = common_;
  config.server = aggregators_[aggregator].address;
  if (config.asynchronous) config.share = shares()[aggregator];
  if (config.window == 0 || (config.window_by_weights && aggregators_.size() > 1)) {
    config.window = weighted_window(auto_window(config.gradients, config.world * config.threads),
                                    aggregators_[aggregator].weight, weight_sum_);
  }
  return config;
}

/// Returns how the terms of an aggregator differ from those of the first one; empty: they agree.
std::string JoinPlan::difference(std::span<const Terms> terms, size_t other) const {
  const Terms& ours = terms.front();
  const Terms& theirs = terms[other];
  const std::string& first = aggregators_[0].name;
  const std::string& second = aggregators_[other].name;
  if (theirs.gradients != ours.gradients) {
    return fmt::format(
        "aggregator {} takes {} gradients a packet, and {} takes {}; give their jobs the same "
        "block_grad_max, or ask for gradients={}",
        first, ours.gradients, second, theirs.gradients,
        std::min(ours.gradients, theirs.gradients));
  }
  const bool windows_known = ours.job_window > 0 && theirs.job_window > 0;
  if (windows_known && theirs.job_window != ours.job_window) {
    return fmt::format(
        "job {} has a window of {} blocks at aggregator {}, and of {} at {}; give the jobs the "
        "same window",
        common_.job_id, ours.job_window, first, theirs.job_window, second);
  }
  const bool mitigates = ours.straggler_timeout > Duration();
  if (mitigates != (theirs.straggler_timeout > Duration())) {
    return fmt::format(
        "job {} has straggler mitigation at aggregator {}, but not at {}; give the jobs the same "
        "mitigation, on or off",
        common_.job_id, mitigates ? first : second, mitigates ? second : first);
  }
  if (theirs.straggler_timeout != ours.straggler_timeout) {
    return fmt::format(
        "job {} has a straggler timeout of {:g} ms at aggregator {}, and of {:g} ms at {}; give "
        "the "
        "jobs the same timeout_ms",
        common_.job_id, in_seconds(ours.straggler_timeout) * 1e3, first,
        in_seconds(theirs.straggler_timeout) * 1e3, second);
  }
  return "";
}

Result<void> JoinPlan::agree(std::span<const Terms> terms) {
  agreed_ = terms.front();
  for (size_t i = 0; i < terms.size(); i++) {
    agreed_.channels = std::min(agreed_.channels, terms[i].channels);
    if (terms[i].narrow_gradients != agreed_.narrow_gradients) agreed_.narrow_gradients = 0;
    if (std::string text = difference(terms, i); !text.empty()) return failure(std::move(text));
  }
  return {};
}

CommunicatorConfig JoinPlan::further_channel(size_t aggregator, uint32_t channel) const {
  CommunicatorConfig config = first_channel(aggregator);
  config.job_id = static_cast<uint8_t>(config.job_id + channel);
  config.gradients = agreed_.gradients;
  config.gradients_flexible = false;
  config.threads = 1;
  return config;
}

ChannelPlace JoinPlan::place(size_t aggregator, uint32_t channel) const {
  ChannelPlace place;
  if (aggregators_.size() > 1) {
    place.aggregator = static_cast<uint32_t>(aggregator + 1);
    place.text = fmt::format(" (aggregator {} of {}, {})", aggregator + 1, aggregators_.size(),
                             aggregators_[aggregator].name);
  }
  place.priority = channel % std::min(common_.priorities, agreed_.channels);
  place.thread = channel;
  if (channel > 0) place.text += fmt::format(" (channel {} of job {})", channel, common_.job_id);
  return place;
}

std::vector<wire::ParameterShare> JoinPlan::shares() const {
  if (aggregators_.size() == 1)
    return {{}};  // Its weight has no meaning, and ranks may differ in it.
  std::vector<wire::ParameterShare> shares;
  uint64_t before = 0;
  for (const Aggregator& each : aggregators_) {
    shares.push_back({.before = before, .own = each.weight, .all = weight_sum_});
    before += each.weight;
  }
  return shares;
}

std::vector<uint32_t> JoinPlan::weights() const {
  std::vector<uint32_t> weights;
  for (uint32_t channel = 0; channel < agreed_.channels; channel++) {
    for (const Aggregator& each : aggregators_) weights.push_back(each.weight);
  }
  return weights;
}

}  // namespace tributary::host
