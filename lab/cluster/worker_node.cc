// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/worker_node.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::lab {

using microcode::DecodeStatus;
using microcode::ElementFormat;
using microcode::MessageType;

__extension__ using Wide = unsigned __int128;

WorkerNode::WorkerNode(net::Network& network, const WorkerNodeConfig& config, uint64_t seed)
    : network_(network), config_(config), nonces_(seed), id_(network.add_node(*this, config.name)) {
  TRIB_ASSERT(config_.train > 0 && config_.nic_bits_per_s > 0);
}

WorkerNode::~WorkerNode() = default;

// --- A process's life ---

void WorkerNode::start() {
  const Instant now = network_.core().now();
  const uint32_t nonce = nonces_.any_u32() | 1;
  protocol_ = std::make_unique<host::WorkerProtocol>(config_.communicator, nonce, local_now());
  packet_.assign(protocol_->packet_bytes_max(), std::byte{});
  sent_at_.assign(config_.communicator.window, Instant());
  received_.clear();
  received_bytes_ = 0;
  results_heard_ = 0;
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
  bool blocked = false;
  const uint32_t sent = send_some(blocked);
  busy_until_ = now + config_.packet_cost * (int64_t{taken} + sent) * config_.train;
  if (!received_.empty() || (sent == kBurst && !blocked)) {
    schedule(busy_until_);
  } else {
    if (blocked) schedule(ring_free_at());
    const Instant deadline = protocol_->next_deadline();
    if (deadline != Instant::never()) schedule(deadline - clock_ahead_);
  }
  if (observer_ != nullptr) observer_->on_round();
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
  if (packet.source != config_.communicator.server) {
    foreign_packets_++;
    return;
  }
  const Instant now = network_.core().now();
  const uint64_t blocks_before = protocol_->counters().blocks;
  // Of an elided packet only the head exists, and only that is read.
  protocol_->on_packet({packet.stored.data(), packet.size_bytes}, local_now());
  microcode::MessageHead message;
  const DecodeStatus status = decode_head(packet.stored, packet.size_bytes, message);
  const bool is_result = status == DecodeStatus::kOk &&
                         message.extension.type == MessageType::kResult &&
                         message.extension.session == protocol_->session();
  if (!is_result) return;
  hear_result(message.header.block_id);
  if (config_.latency == nullptr || protocol_->counters().blocks == blocks_before) return;
  engine::LatencyParts parts;
  parts[engine::LatencyPart::kIngress] = now - sent_at_[message.header.block_id % sent_at_.size()];
  config_.latency->add(parts, config_.train);
}

void WorkerNode::hear_result(uint32_t block_id) {
  const auto ahead = static_cast<int32_t>(block_id - static_cast<uint32_t>(results_heard_));
  if (ahead >= 0) results_heard_ += static_cast<uint32_t>(ahead) + 1;
}

uint32_t WorkerNode::send_some(bool& blocked) {
  const auto link = network_.link_at(id_, 0);
  TRIB_ASSERT(link.has_value());
  uint32_t sent = 0;
  for (; sent < kBurst; sent++) {
    blocked = network_.queue_bytes(*link) >= ring_bytes();
    if (blocked) break;
    const uint32_t size = protocol_->next_packet(packet_, local_now());
    if (size == 0) break;
    network_.transmit(id_, 0,
                      network_.packets().make(config_.address, config_.communicator.server, size,
                                              std::span(packet_).first(stored_bytes(size))));
  }
  return sent;
}

/// How much of the packet that was written exists; notes when a contribution is sent.
uint32_t WorkerNode::stored_bytes(uint32_t size_bytes) {
  microcode::MessageHead message;
  const uint32_t head_bytes = std::min(size_bytes, microcode::kControlMessageBytes);
  const DecodeStatus status =
      decode_head(std::span(packet_).first(head_bytes), size_bytes, message);
  TRIB_ASSERT(status == DecodeStatus::kOk);
  if (message.extension.type != MessageType::kContribution) return size_bytes;
  if ((message.extension.flags & microcode::kFlagRetransmission) == 0) {
    sent_at_[message.header.block_id % sent_at_.size()] = network_.core().now();
  }
  const bool elided = config_.elided && message.extension.format == ElementFormat::kInt32;
  return elided ? message.head_bytes : size_bytes;
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
