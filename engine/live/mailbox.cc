// SPDX-License-Identifier: Apache-2.0
#include "engine/live/mailbox.h"

#include <cstring>

namespace tributary::engine {

Mailbox::Mailbox(uint32_t buffer_bytes, PortQueue& owner)
    : buffer_bytes_(buffer_bytes),
      owner_(owner),
      bytes_(new std::byte[size_t{kBuffers} * buffer_bytes]),
      posted_(kBuffers),
      free_(kBuffers) {
  for (uint32_t i = 0; i < kBuffers; i++) free_.enqueue(bytes_.get() + size_t{i} * buffer_bytes);
  taken_.reserve(kBuffers);
}

bool Mailbox::post(const Packet& packet) {
  std::byte* buffer = nullptr;
  if (packet.size > buffer_bytes_ || !free_.try_dequeue(buffer)) return false;
  std::memcpy(buffer, packet.data, packet.size);
  Packet copy = packet;
  copy.data = buffer;
  posted_.enqueue(copy);
  return true;
}

uint32_t Mailbox::take(std::span<Packet> burst) {
  const auto count = static_cast<uint32_t>(posted_.try_dequeue_bulk(burst.data(), burst.size()));
  for (uint32_t i = 0; i < count; i++) taken_.push_back(burst[i].data);
  return count;
}

void Mailbox::free_taken() {
  free_.enqueue_bulk(taken_.data(), taken_.size());
  taken_.clear();
}

}  // namespace tributary::engine
