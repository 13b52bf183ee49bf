// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/sharded_protocol.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "host/tensor_parts.h"
#include "host/trio_ml/worker_protocol.h"

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
    : ProtocolGroup("server"), config_(config), cutter_(weights_of(config)) {
  TRIB_ASSERT(!config.servers.empty());
  const auto windows = window_shares(config_.communicator.window, weights_of(config_));
  TRIB_ASSERT(windows.size() == config_.servers.size());
  for (size_t i = 0; i < windows.size(); i++) {
    host::CommunicatorConfig conversation = config_.communicator;
    conversation.server = config_.servers[i];
    conversation.window = windows[i];
    add_member(std::make_unique<host::WorkerProtocol>(conversation, nonce, now));
  }
}

// --- Tensors ---

void ShardedProtocol::submit(Transfer& transfer, Instant now) {
  transfer.done = false;
  transfer.outcome = host::Outcome{};
  if (status() != Status::kOk) {
    transfer.outcome.status = status();
    transfer.outcome.text = status_text();
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
    members()[flight.cut[i].aggregator]->submit(flight.parts[i], now);
  }
  on_progress();
}

void ShardedProtocol::on_progress() {
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

// --- Packets ---

size_t ShardedProtocol::server_of(const Endpoint& from) const {
  const auto found = std::find(config_.servers.begin(), config_.servers.end(), from);
  return static_cast<size_t>(found - config_.servers.begin());
}

bool ShardedProtocol::accepts_from(const Endpoint& from) const {
  return server_of(from) < members().size();
}

std::optional<Duration> ShardedProtocol::on_packet(const Incoming& packet, Instant now) {
  const size_t server = server_of(packet.from);
  if (server == members().size()) return std::nullopt;
  const auto took = members()[server]->on_packet(packet, now);
  note_progress();
  return took;
}

Outgoing ShardedProtocol::next_packet(std::span<std::byte> out, Instant now) {
  for (size_t i = 0; i < members().size(); i++) {
    const size_t server = turn_;
    turn_ = (turn_ + 1) % members().size();
    const Outgoing packet = members()[server]->next_packet(out, now);
    if (packet.size_bytes > 0) return packet;
  }
  return {};
}

}  // namespace tributary::lab
