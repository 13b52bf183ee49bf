// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/sharded_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace tributary::lab {

using host::Incoming;
using host::Outgoing;
using host::Status;
using host::Transfer;

uint32_t window_share(uint32_t window, uint32_t servers) {
  return std::bit_floor(std::max(window / servers, 1U));
}

ShardedProtocol::ShardedProtocol(const ShardedConfig& config, uint64_t nonce, Instant now)
    : config_(config) {
  TRIB_ASSERT(!config.servers.empty());
  const auto servers = static_cast<uint32_t>(config_.servers.size());
  for (const Endpoint& server : config_.servers) {
    host::CommunicatorConfig conversation = config_.communicator;
    conversation.server = server;
    conversation.window = window_share(config_.communicator.window, servers);
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
  cut(transfer, flight);
  const size_t servers = conversations_.size();
  for (size_t i = 0; i < servers; i++) {
    conversations_[(i + submitted_) % servers]->submit(flight.parts[i], now);
  }
  submitted_++;
  finish_done();
}

void ShardedProtocol::cut(const Transfer& whole, Flight& flight) const {
  const uint64_t elements = whole.element_count();
  const uint64_t block = gradients();
  const uint64_t blocks = (elements + block - 1) / block;
  const size_t servers = conversations_.size();
  flight.parts.resize(servers);
  for (size_t i = 0; i < servers; i++) {
    const uint64_t first = std::min(blocks * i / servers * block, elements);
    const uint64_t count = std::min(blocks * (i + 1) / servers * block, elements) - first;
    Transfer& part = flight.parts[i];
    part.op = whole.op;
    part.format = whole.format;
    part.scale = whole.scale;
    part.elided_elements = whole.elided_elements > 0 ? count : 0;
    if (!whole.floats.empty()) part.floats = whole.floats.subspan(first, count);
    if (!whole.integers.empty()) part.integers = whole.integers.subspan(first, count);
    part.halves.type = whole.halves.type;
    if (!whole.halves.bits.empty()) part.halves.bits = whole.halves.bits.subspan(first, count);
    flight.first.push_back(first);
  }
}

void ShardedProtocol::finish_done() {
  while (!flights_.empty()) {
    Flight& flight = flights_.front();
    const bool all = std::all_of(flight.parts.begin(), flight.parts.end(),
                                 [](const Transfer& part) { return part.done; });
    if (!all) return;
    host::Outcome& outcome = flight.whole->outcome;
    for (size_t i = 0; i < flight.parts.size(); i++) {
      const host::Outcome& part = flight.parts[i].outcome;
      outcome.blocks += part.blocks;
      outcome.underflow += part.underflow;
      for (host::DegradedRange range : part.degraded) {
        range.element_first += flight.first[i];
        outcome.degraded.push_back(range);
      }
      if (outcome.status == Status::kOk && part.status != Status::kOk) {
        outcome.status = part.status;
        outcome.text = part.text;
      }
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
