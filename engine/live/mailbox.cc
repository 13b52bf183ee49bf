// SPDX-License-Identifier: Apache-2.0
#include "engine/live/mailbox.h"

#include <algorithm>
#include <cstring>

namespace tributary::engine {

Mailbox::Mailbox(uint32_t buffer_bytes, uint32_t core_count, PortQueue& owner)
    : buffer_bytes_(buffer_bytes), owner_(owner), lanes_(core_count) {
  for (Lane& lane : lanes_) {
    lane.bytes.reset(new std::byte[size_t{kLaneBuffers} * buffer_bytes]);  // Not touched yet.
  }
}

bool Mailbox::post(uint32_t from, const Packet& packet) {
  Lane& lane = lanes_[from];
  if (packet.size > buffer_bytes_) return false;
  if (lane.posted - lane.freed_seen == kLaneBuffers) {
    lane.freed_seen = lane.freed.load(std::memory_order_acquire);
    if (lane.posted - lane.freed_seen == kLaneBuffers) return false;
  }
  const uint32_t index = lane.posted++ % kLaneBuffers;
  std::byte* const buffer = lane.bytes.get() + size_t{index} * buffer_bytes_;
  std::memcpy(buffer, packet.data, packet.size);
  lane.packets[index] = packet;
  lane.packets[index].data = buffer;
  return true;
}

void Mailbox::deliver(uint32_t from) {
  lanes_[from].delivered.store(lanes_[from].posted, std::memory_order_release);
  owner_.wake();
}

uint32_t Mailbox::take(std::span<Packet> burst) {
  const auto lane_count = static_cast<uint32_t>(lanes_.size());
  uint32_t filled = 0;
  for (uint32_t i = 0; i < lane_count; i++) {
    Lane& lane = lanes_[(lane_first_ + i) % lane_count];
    const uint32_t waiting = lane.delivered.load(std::memory_order_acquire) - lane.taken;
    const uint32_t count = std::min(waiting, static_cast<uint32_t>(burst.size()) - filled);
    for (uint32_t k = 0; k < count; k++) {
      burst[filled++] = lane.packets[lane.taken++ % kLaneBuffers];
    }
  }
  lane_first_ = (lane_first_ + 1) % lane_count;
  return filled;
}

void Mailbox::free_taken() {
  for (Lane& lane : lanes_) {
    // Relaxed: only the owner writes `freed`.
    if (lane.freed.load(std::memory_order_relaxed) == lane.taken) continue;
    lane.freed.store(lane.taken, std::memory_order_release);
  }
}

}  // namespace tributary::engine
