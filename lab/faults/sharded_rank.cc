// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/sharded_rank.h"

#include <algorithm>

#include "base/assert.h"
#include "base/prng.h"

namespace tributary::lab {

using host::Incoming;
using host::Outgoing;
using host::Status;
using host::Transfer;

ShardedRank::ShardedRank(const host::CommunicatorConfig& config, uint64_t nonce, Instant now)
    : plan_(config) {
  Prng nonces(nonce);
  for (size_t i = 0; i < aggregators().size(); i++) {
    state_.add(plan_.place(i, 0));
    channels_.push_back(
        std::make_unique<host::WorkerProtocol>(plan_.first_channel(i), nonces.any_u64() | 1, now));
  }
}

size_t ShardedRank::channel_to(const Endpoint& aggregator) const {
  size_t channel = 0;
  while (channel < channels_.size() && !channels_[channel]->accepts_from(aggregator)) channel++;
  return channel;
}

bool ShardedRank::waits_for(const Endpoint& aggregator) const {
  const size_t channel = channel_to(aggregator);
  return channel < channels_.size() && !channels_[channel]->idle();
}

// --- Joins and ends ---

/// Spreads the first end, takes the terms when all channels have joined, and completes tensors.
void ShardedRank::settle() {
  for (size_t i = 0; i < channels_.size(); i++) {
    if (channels_[i]->phase() != Phase::kEnded) continue;
    const auto others = state_.note_end(
        i, {channels_[i]->status(), channels_[i]->status_text(), channels_[i]->lost_aggregator()});
    for (const size_t other : others) {
      const host::EndReason& failure = *state_.failure();
      channels_[other]->fail(failure.status, failure.text, failure.lost_aggregator);
    }
  }
  if (!agreed_ && !state_.failure()) agree();
  while (!flights_.empty()) {
    Flight& flight = flights_.front();
    const bool done = std::all_of(flight.parts.begin(), flight.parts.end(),
                                  [](const auto& part) { return part.transfer.done; });
    if (!done) return;
    flight.whole->outcome = state_.merge(flight.parts);
    flight.whole->done = true;
    flights_.pop_front();
  }
}

void ShardedRank::agree() {
  std::vector<host::JoinPlan::Terms> terms;
  for (const auto& channel : channels_) {
    if (channel->phase() == Phase::kJoining) return;
    terms.push_back({.gradients = channel->gradients(),
                     .narrow_gradients = channel->narrow_gradients(),
                     .channels = channel->channels(),
                     .job_window = channel->job_window(),
                     .straggler_timeout = channel->straggler_timeout()});
  }
  agreed_ = true;
  if (const auto agreed = plan_.agree(terms); !agreed) {
    return fail(Status::kRefused, agreed.error().text, /*lost_aggregator=*/0);
  }
  state_.set_cut(plan_.gradients(), plan_.narrow_gradients(), plan_.weights());
}

void ShardedRank::leave(Instant now) {
  for (const auto& channel : channels_) channel->leave(now);
  settle();
}

void ShardedRank::fail(Status status, std::string text, uint32_t lost_aggregator) {
  for (const auto& channel : channels_) channel->fail(status, text, lost_aggregator);
  settle();
}

ShardedRank::Phase ShardedRank::phase() const {
  if (state_.failure()) return Phase::kEnded;
  return agreed_ ? Phase::kRunning : Phase::kJoining;
}

Status ShardedRank::status() const {
  return state_.failure() ? state_.failure()->status : Status::kOk;
}

const std::string& ShardedRank::status_text() const {
  return state_.failure() ? state_.failure()->text : channels_.front()->status_text();
}

uint64_t ShardedRank::session() const {
  uint64_t all = 0;
  for (const auto& channel : channels_) {
    if (channel->session() == 0) return 0;
    all = Prng(all ^ channel->session()).any_u64() | 1;
  }
  return all;
}

// --- Tensors ---

void ShardedRank::submit(Transfer& transfer, Instant now) {
  transfer.done = false;
  transfer.outcome = host::Outcome{};
  if (state_.failure()) {
    transfer.outcome.status = state_.failure()->status;
    transfer.outcome.text = state_.failure()->text;
    transfer.done = true;
    return;
  }
  TRIB_ASSERT(agreed_);
  last_cut_ = state_.cut(transfer);
  Flight& flight = flights_.emplace_back();
  flight.whole = &transfer;
  for (const plan::Part& part : last_cut_) {
    flight.parts.push_back(
        {.element_first = part.element_first, .transfer = transfer_of(transfer, part)});
  }
  for (size_t i = 0; i < last_cut_.size(); i++) {
    channels_[last_cut_[i].aggregator]->submit(flight.parts[i].transfer, now);
  }
  settle();
}

// --- Packets and time ---

bool ShardedRank::accepts_from(const Endpoint& from) const {
  return channel_to(from) < channels_.size();
}

std::optional<Duration> ShardedRank::on_packet(const Incoming& packet, Instant now) {
  const auto took = channels_[channel_to(packet.from)]->on_packet(packet, now);
  settle();
  return took;
}

void ShardedRank::on_refused_by(const Endpoint& peer, Instant now) {
  const size_t channel = channel_to(peer);
  if (channel == channels_.size()) return;
  channels_[channel]->on_refused(now);
  settle();
}

void ShardedRank::on_time(Instant now) {
  for (const auto& channel : channels_) channel->on_time(now);
  settle();
}

Outgoing ShardedRank::next_packet(std::span<std::byte> out, Instant now) {
  for (size_t i = 0; i < channels_.size(); i++) {
    const size_t channel = turn_;
    turn_ = (turn_ + 1) % channels_.size();
    const Outgoing packet = channels_[channel]->next_packet(out, now);
    if (packet.size_bytes > 0) return packet;
  }
  return {};
}

Instant ShardedRank::next_deadline() const {
  Instant at = Instant::never();
  for (const auto& channel : channels_) at = std::min(at, channel->next_deadline());
  return at;
}

// --- Terms and counts ---

const host::CommunicatorCounters& ShardedRank::counters() const {
  counters_ = {};
  for (const auto& channel : channels_) counters_ += channel->counters();
  return counters_;
}

uint32_t ShardedRank::packet_bytes_max() const {
  uint32_t bytes = 0;
  for (const auto& channel : channels_) bytes = std::max(bytes, channel->packet_bytes_max());
  return bytes;
}

}  // namespace tributary::lab
