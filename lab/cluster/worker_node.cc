// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/worker_node.h"

#include <algorithm>

#include "base/assert.h"
#include "host/trio_ml/worker_protocol.h"

namespace tributary::lab {

__extension__ using Wide = unsigned __int128;

WorkerNode::WorkerNode(net::Network& network, const WorkerNodeConfig& config, uint64_t seed)
    : network_(network),
      config_(config),
      nonces_(seed),
      id_(network.add_node(*this, config.name)),
      own_(config.address) {
  TRIB_ASSERT(config_.train > 0 && config_.nic_bits_per_s > 0);
}

WorkerNode::~WorkerNode() = default;

// --- A process's life ---

void WorkerNode::start() {
  const Instant now = network_.core().now();
  const uint64_t nonce = nonces_.any_u64() | 1;
  protocol_ = config_.protocol ? config_.protocol(nonce, local_now())
                               : std::make_unique<host::WorkerProtocol>(config_.communicator, nonce,
                                                                        local_now());
  if (config_.new_ports) own_.port++;
  packet_.assign(protocol_->packet_bytes_max(), std::byte{});
  open_window();
  received_.clear();
  received_bytes_ = 0;
  paused_until_ = now;
  schedule(now);
}

void WorkerNode::crash() {
  protocol_.reset();
  received_.clear();
  received_bytes_ = 0;
}

void WorkerNode::pause(Duration length) {
  paused_until_ = std::max(paused_until_, network_.core().now() + length);
}

void WorkerNode::step_clock(Duration ahead) {
  clock_ahead_ = clock_ahead_ + ahead;
  if (runs()) schedule(network_.core().now());
}

void WorkerNode::refuse(const Endpoint& peer) {
  if (!runs()) return;
  protocol_->on_refused_by(peer, local_now());
  schedule(network_.core().now());
}

void WorkerNode::submit(host::Transfer& transfer) {
  protocol_->submit(transfer, local_now());
  schedule(network_.core().now());
}

void WorkerNode::leave() {
  protocol_->leave(local_now());
  schedule(network_.core().now());
}

// --- Rounds ---

void WorkerNode::schedule(Instant at) {
  at = std::max({at, network_.core().now(), busy_until_, paused_until_});
  if (wake_at_ <= at || at == Instant::never()) return;
  wake_at_ = at;
  network_.core().schedule(at, EventPriority::kHost, *this, 0);
}

void WorkerNode::on_event(uint64_t) {
  const Instant now = network_.core().now();
  if (now != wake_at_) return;  // An earlier one has come instead.
  wake_at_ = Instant::never();
  if (protocol_ == nullptr) return;
  if (now < paused_until_) return schedule(paused_until_);
  run_round();
}

void WorkerNode::run_round() {
  const Instant now = network_.core().now();
  const uint32_t taken = take_received();
  protocol_->on_time(local_now());
  if (congestion_) protocol_->limit_window(congestion_->packets());
  bool blocked = false;
  const uint32_t sent = send_some(blocked);
  const Duration cost = config_.packet_cost * (int64_t{taken} + sent) * config_.train;
  busy_until_ = now + cost;
  charged_ += cost;
  if (!received_.empty() || (sent == kBurst && !blocked)) {
    schedule(busy_until_);
  } else {
    if (blocked) schedule(ring_free_at());
    const Instant deadline = protocol_->next_deadline();
    // A packet that is due already waits for the ring.
    const bool waits = blocked && deadline <= local_now();
    if (deadline != Instant::never() && !waits) schedule(deadline - clock_ahead_);
  }
  if (observer_ != nullptr) observer_->on_round();
}

Duration WorkerNode::worked() const {
  const Duration ahead = std::max(Duration(), busy_until_ - network_.core().now());
  return charged_ - ahead;
}

uint32_t WorkerNode::take_received() {
  uint32_t taken = 0;
  for (; taken < kBurst && !received_.empty(); taken++) {
    const net::PacketRef packet = std::move(received_.front());
    received_.pop_front();
    received_bytes_ -= uint64_t{packet->size_bytes} * config_.train;
    take(*packet);
  }
  return taken;
}

void WorkerNode::take(const net::Packet& packet) {
  const bool is_mine = !config_.new_ports || packet.destination.port == own_.port;
  if (!is_mine || !protocol_->accepts_from(packet.source)) {
    foreign_packets_++;
    return;
  }
  taken_packets_++;
  const uint64_t accepted = protocol_->counters().packets_received;
  const auto took = protocol_->on_packet(
      {.from = packet.source, .stored = packet.stored, .size_bytes = packet.size_bytes},
      local_now());
  if (watch_ != nullptr) {
    watch_->on_taken(*this, packet, protocol_->counters().packets_received != accepted);
  }
  if (congestion_) control_congestion(took.has_value(), packet.congestion_experienced);
  if (!took || config_.latency == nullptr) return;
  engine::LatencyParts parts;
  parts[engine::LatencyPart::kIngress] = *took;
  config_.latency->add(parts, config_.train);
}

void WorkerNode::open_window() {
  congestion_.reset();
  losses_seen_ = 0;
  if (config_.congestion == host::CongestionControl::kNone) return;
  const uint64_t train_bytes = uint64_t{packet_.size()} * config_.train;
  const auto start = static_cast<uint32_t>(host::kCongestionStartBytes / train_bytes);
  const uint32_t most = std::max(config_.communicator.window, 1U);
  congestion_.emplace(config_.congestion, std::clamp(start, 1U, most), most);
}

void WorkerNode::control_congestion(bool is_result, bool marked) {
  if (is_result) congestion_->on_result(marked);
  const uint64_t losses = protocol_->counters().retransmitted;
  if (losses > losses_seen_) congestion_->on_loss();
  losses_seen_ = losses;
}

uint32_t WorkerNode::send_some(bool& blocked) {
  const auto link = network_.link_at(id_, 0);
  TRIB_ASSERT(link.has_value());
  uint32_t sent = 0;
  for (; sent < kBurst; sent++) {
    blocked = network_.queue_bytes(*link) >= ring_bytes();
    if (blocked) break;
    const host::Outgoing packet = protocol_->next_packet(packet_, local_now());
    if (packet.size_bytes == 0) break;
    network_.transmit(id_, 0,
                      network_.packets().make(own_, packet.to, packet.size_bytes,
                                              std::span(packet_).first(packet.stored_bytes)));
  }
  return sent;
}

uint64_t WorkerNode::ring_bytes() const {
  const uint64_t packets = std::max(kRingPackets / config_.train, 2U);
  return packets * config_.train * (packet_.size() + net::kWireOverheadBytes);
}

/// When half of the NIC's ring will be free.
Instant WorkerNode::ring_free_at() const {
  const auto link = network_.link_at(id_, 0);
  const uint64_t waiting = network_.queue_bytes(*link);
  const uint64_t surplus_bits = (waiting - std::min(waiting, ring_bytes() / 2)) * 8;
  constexpr uint64_t kTicksPerSecond = 100'000'000'000;
  const auto ticks = static_cast<Wide>(surplus_bits) * kTicksPerSecond / config_.nic_bits_per_s;
  return network_.core().now() + Duration::from_ticks(static_cast<int64_t>(ticks) + 1);
}

// --- In ---

void WorkerNode::receive(uint32_t, net::PacketRef packet) {
  if (protocol_ == nullptr) return;
  const uint64_t bytes = uint64_t{packet->size_bytes} * config_.train;
  if (received_bytes_ + bytes > config_.receive_buffer_bytes) {
    receive_overflows_ += config_.train;
    return;
  }
  received_bytes_ += bytes;
  received_.push_back(std::move(packet));
  schedule(network_.core().now());
}

}  // namespace tributary::lab
