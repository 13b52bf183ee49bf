// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/sharded_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "host/tensor_parts.h"

namespace tributary::lab {

namespace {

std::vector<uint32_t> weights_of(const ShardedConfig& config) {
  return config.weights.empty() ? std::vector<uint32_t>(config.servers.size(), 1) : config.weights;
}

/// Converts a part from real elements to simulated ones. One of them stands for `train` real ones.
plan::Part simulated(const plan::Part& real, uint32_t train) {
  const uint64_t first = real.element_first / train;
  const uint64_t end = (real.element_first + real.element_count) / train;
  return {.aggregator = real.aggregator, .element_first = first, .element_count = end - first};
}

}  // namespace

using host::Incoming;
using host::Outgoing;
using host::Status;
using host::Transfer;

std::vector<uint32_t> window_shares(uint32_t window, std::span<const uint32_t> weights) {
  const uint64_t sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  TRIB_ASSERT(sum > 0);
  std::vector<uint32_t> shares;
  for (const uint32_t weight : weights) {
    shares.push_back(std::max(static_cast<uint32_t>(uint64_t{window} * weight / sum), 1U));
  }
  return shares;
}

ShardedProtocol::ShardedProtocol(const ShardedConfig& config, uint64_t nonce, Instant now)
    : config_(config), cutter_(weights_of(config)) {
  TRIB_ASSERT(!config.servers.empty());
  const auto windows = window_shares(config_.communicator.window, weights_of(config_));
  TRIB_ASSERT(windows.size() == config_.servers.size());
  for (size_t i = 0; i < windows.size(); i++) {
    host::CommunicatorConfig conversation = config_.communicator;
    conversation.server = config_.servers[i];
    conversation.window = windows[i];
    conversations_.push_back(std::make_unique<host::WorkerProtocol>(conversation, nonce, now));
  }
}

// --- Tensors ---

void ShardedProtocol::submit(Transfer& transfer, Instant now) {
  transfer.done = false;
  transfer.outcome = host::Outcome{};
  if (status_ != Status::kOk) {
    transfer.outcome.status = status_;
    transfer.outcome.text = status_text_;
    transfer.done = true;
    return;
  }
  flights_.emplace_back();
  Flight& flight = flights_.back();
  flight.whole = &transfer;
  flight.cut =
      cutter_.cut(transfer.element_count() * config_.train, gradients(), wire::kGradientBytes);
  for (plan::Part& part : flight.cut) {
    part = simulated(part, config_.train);
    flight.parts.push_back(host::transfer_of(transfer, part));
    if (transfer.elided_elements > 0) flight.parts.back().elided_elements = part.element_count;
  }
  for (size_t i = 0; i < flight.cut.size(); i++) {
    conversations_[flight.cut[i].aggregator]->submit(flight.parts[i], now);
  }
  finish_done();
}

void ShardedProtocol::finish_done() {
  while (!flights_.empty()) {
    Flight& flight = flights_.front();
    const bool all = std::all_of(flight.parts.begin(), flight.parts.end(),
                                 [](const Transfer& part) { return part.done; });
    if (!all) return;
    host::Outcome& outcome = flight.whole->outcome;
    for (size_t i = 0; i < flight.parts.size(); i++) {
      host::add_outcome(outcome, std::move(flight.parts[i].outcome), flight.cut[i].element_first);
    }
    flight.whole->done = true;
    flights_.pop_front();
  }
}

// --- Ends ---

/// Ends all conversations after the first one has ended.
void ShardedProtocol::note_end() {
  if (status_ != Status::kOk) return;
  for (size_t i = 0; i < conversations_.size(); i++) {
    if (conversations_[i]->phase() != Phase::kEnded) continue;
    status_ = conversations_[i]->status();
    status_text_ = fmt::format("server {}: {}", i, conversations_[i]->status_text());
    break;
  }
  if (status_ == Status::kOk) return;
  for (const auto& conversation : conversations_) {
    if (conversation->phase() != Phase::kEnded)
      conversation->fail(status_, status_text_, /*lost_aggregator=*/0);
  }
}

void ShardedProtocol::leave(Instant now) {
  for (const auto& conversation : conversations_) conversation->leave(now);
  note_end();
  finish_done();
}

void ShardedProtocol::fail(Status status, std::string text, uint32_t lost_aggregator) {
  if (status_ != Status::kOk) return;
  status_ = status;
  status_text_ = std::move(text);
  for (const auto& conversation : conversations_)
    conversation->fail(status_, status_text_, lost_aggregator);
  finish_done();
}

ShardedProtocol::Phase ShardedProtocol::phase() const {
  if (status_ != Status::kOk) return Phase::kEnded;
  const bool joins = std::any_of(
      conversations_.begin(), conversations_.end(),
      [](const auto& conversation) { return conversation->phase() == Phase::kJoining; });
  return joins ? Phase::kJoining : Phase::kRunning;
}

// --- Packets and time ---

size_t ShardedProtocol::server_of(const Endpoint& from) const {
  const auto found = std::find(config_.servers.begin(), config_.servers.end(), from);
  return static_cast<size_t>(found - config_.servers.begin());
}

bool ShardedProtocol::hears(const Endpoint& from) const {
  return server_of(from) < conversations_.size();
}

std::optional<Duration> ShardedProtocol::on_packet(const Incoming& packet, Instant now) {
  const size_t server = server_of(packet.from);
  if (server == conversations_.size()) return std::nullopt;
  const auto took = conversations_[server]->on_packet(packet, now);
  note_end();
  finish_done();
  return took;
}

void ShardedProtocol::on_time(Instant now) {
  for (const auto& conversation : conversations_) conversation->on_time(now);
  note_end();
  finish_done();
}

Outgoing ShardedProtocol::next_packet(std::span<std::byte> out, Instant now) {
  for (size_t i = 0; i < conversations_.size(); i++) {
    const size_t server = turn_;
    turn_ = (turn_ + 1) % conversations_.size();
    const Outgoing packet = conversations_[server]->next_packet(out, now);
    if (packet.size_bytes > 0) return packet;
  }
  return {};
}

Instant ShardedProtocol::next_deadline() const {
  Instant at = Instant::never();
  for (const auto& conversation : conversations_) {
    at = std::min(at, conversation->next_deadline());
  }
  return at;
}

// --- Accessors ---

const host::CommunicatorCounters& ShardedProtocol::counters() const {
  counters_ = {};
  for (const auto& conversation : conversations_) counters_ += conversation->counters();
  return counters_;
}

uint32_t ShardedProtocol::packet_bytes_max() const {
  return conversations_.front()->packet_bytes_max();
}

uint32_t ShardedProtocol::window() const {
  uint32_t sum = 0;
  for (const auto& conversation : conversations_) sum += conversation->window();
  return sum;
}

}  // namespace tributary::lab
