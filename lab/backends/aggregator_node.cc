// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/aggregator_node.h"

#include <algorithm>
#include <utility>

#include "wire/trio_ml.h"

namespace tributary::lab {

namespace {

/// Marked blocks that a node remembers: more than a window of any job has.
constexpr size_t kMarkPlaces = size_t{1} << 17;
/// Distance of the places of two jobs' equal block numbers: odd, and above most windows.
constexpr uint64_t kJobStride = 40'503;

/// Returns the place of a block that block_of() has returned.
size_t mark_place_of(uint64_t block) { return (block + (block >> 32U) * kJobStride) % kMarkPlaces; }

/// Returns the job (from bit 32 on) and the block of a message plus 1; 0 for other messages.
uint64_t block_of(std::span<const std::byte> stored, uint32_t size_bytes) {
  wire::MessageHead message;
  const auto head = stored.first(std::min<size_t>(stored.size(), wire::kControlMessageBytes));
  if (wire::decode_head(head, size_bytes, message) != wire::DecodeStatus::kOk) return 0;
  const wire::MessageType type = message.extension.type;
  if (type != wire::MessageType::kContribution && type != wire::MessageType::kResult &&
      type != wire::MessageType::kReceipt) {
    return 0;
  }
  return (uint64_t{message.header.job_id} << 32 | message.header.block_id) + 1;
}

}  // namespace

AggregatorNode::AggregatorNode(net::Network& network, const AggregatorSpec& spec)
    : network_(network),
      spec_(spec),
      id_(network.add_node(*this, spec.name)),
      marks_(spec.keeps_marks ? kMarkPlaces : 0) {}

void AggregatorNode::receive(uint32_t, net::PacketRef packet) {
  if (packet->destination == spec_.address) {
    if (packet->congestion_experienced) note_mark(*packet);
    aggregate(std::move(packet));
  } else {
    forward(std::move(packet));
  }
}

void AggregatorNode::note_mark(const net::Packet& packet) {
  if (marks_.empty()) return;
  const uint64_t block = block_of(packet.stored, packet.size_bytes);
  if (block != 0) marks_[mark_place_of(block)] = block;
}

bool AggregatorNode::is_marked(std::span<const std::byte> stored, uint32_t size_bytes) const {
  if (marks_.empty()) return false;
  const uint64_t block = block_of(stored, size_bytes);
  return block != 0 && marks_[mark_place_of(block)] == block;
}

void AggregatorNode::forward(net::PacketRef packet) {
  const std::span<const uint32_t> ports = table_.ports_for(*packet);
  if (ports.empty()) unroutable_++;
  for (const uint32_t port : ports) network_.transmit(id_, port, packet);
}

void AggregatorNode::send_last(net::PacketRef packet) {
  const std::span<const uint32_t> ports = table_.ports_for(*packet);
  if (ports.empty()) unroutable_++;
  for (const uint32_t port : ports) network_.transmit_last(id_, port, packet);
}

void AggregatorNode::send(std::span<const std::byte> stored, uint32_t size_bytes,
                          std::span<const Endpoint> destinations) {
  const bool marked = is_marked(stored, size_bytes);
  for (const Endpoint& destination : destinations) {
    net::PacketRef packet = network_.packets().make(spec_.address, destination, size_bytes, stored);
    packet->congestion_experienced = marked;
    forward(std::move(packet));
  }
}

}  // namespace tributary::lab
