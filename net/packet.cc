// SPDX-License-Identifier: Apache-2.0
#include "net/packet.h"

#include "base/assert.h"

namespace tributary::net {

void PacketPool::add_slab() {
  slabs_.push_back(std::make_unique<Packet[]>(kPacketsPerSlab));
  free_.reserve(slabs_.size() * kPacketsPerSlab);
  for (uint32_t i = kPacketsPerSlab; i-- > 0;) {
    slabs_.back()[i].pool_ = this;
    free_.push_back(&slabs_.back()[i]);
  }
}

PacketRef PacketPool::take() {
  if (free_.empty()) add_slab();
  PacketRef ref;
  ref.packet_ = free_.back();
  free_.pop_back();
  held_count_++;
  ref.packet_->references_ = 1;
  ref.packet_->content_hash_ = 0;
  return ref;
}

PacketRef PacketPool::make(const Endpoint& source, const Endpoint& destination, uint32_t size_bytes,
                           std::span<const std::byte> stored) {
  TRIB_ASSERT(stored.size() <= size_bytes);
  PacketRef ref = take();
  ref->source = source;
  ref->destination = destination;
  ref->size_bytes = size_bytes;
  ref->congestion_experienced = false;
  ref->stored.assign(stored.begin(), stored.end());
  return ref;
}

PacketRef PacketPool::copy(const Packet& packet) {
  PacketRef ref = make(packet.source, packet.destination, packet.size_bytes, packet.stored);
  ref->congestion_experienced = packet.congestion_experienced;
  return ref;
}

}  // namespace tributary::net
