// SPDX-License-Identifier: Apache-2.0
#include "engine/model/packet_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace tributary::engine {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, size_t size_bytes) {
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);  // memcpy() rejects null pointers.
}

}  // namespace

PacketBuffer::PacketBuffer(const Config& config) : config_(config) {
  TRIB_ASSERT(config.packet_count > 0 && config.packet_bytes_max >= kHeadBytes);
}

const PacketBuffer::Slot& PacketBuffer::slot_of(PacketHandle packet) const {
  TRIB_ASSERT(packet.slot < slots_.size());
  const Slot& slot = slots_[packet.slot];
  TRIB_ASSERT(slot.use == packet.use && slot.references > 0);  // Otherwise it has been freed.
  return slot;
}

PacketBuffer::Slot& PacketBuffer::slot_of(PacketHandle packet) {
  return const_cast<Slot&>(std::as_const(*this).slot_of(packet));
}

std::optional<PacketHandle> PacketBuffer::take_slot() {
  if (free_count() == 0) {
    counters_.refused_full++;
    return std::nullopt;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back().bytes.reset(new std::byte[kHeadroomBytes + config_.packet_bytes_max]);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.first = kHeadroomBytes;
  slot.size = 0;
  slot.references = 1;
  counters_.stored++;
  counters_.in_use_packets_max =
      std::max(counters_.in_use_packets_max, config_.packet_count - free_count());
  return PacketHandle{index, slot.use};
}

std::optional<PacketHandle> PacketBuffer::store(std::span<const std::byte> packet) {
  if (packet.size() > config_.packet_bytes_max) {
    counters_.refused_too_long++;
    return std::nullopt;
  }
  const auto handle = take_slot();
  if (!handle) return std::nullopt;
  slot_of(*handle).size = static_cast<uint32_t>(packet.size());
  copy_bytes(start_of(*handle), packet.data(), packet.size());
  return handle;
}

std::span<const std::byte> PacketBuffer::head(PacketHandle packet) const {
  return {start_of(packet), head_bytes(packet)};
}

uint32_t PacketBuffer::read_tail(PacketHandle packet, uint32_t offset_bytes,
                                 std::span<std::byte> to) const {
  TRIB_ASSERT(to.size() <= microcode::kTailChunkBytes);
  const Slot& slot = slot_of(packet);
  const uint32_t tail_bytes = slot.size - head_bytes(packet);
  if (offset_bytes >= tail_bytes) return 0;
  const uint32_t read_bytes = std::min(static_cast<uint32_t>(to.size()), tail_bytes - offset_bytes);
  copy_bytes(to.data(), start_of(packet) + head_bytes(packet) + offset_bytes, read_bytes);
  return read_bytes;
}

void PacketBuffer::write_tail(PacketHandle packet, uint32_t offset_bytes,
                              std::span<const std::byte> bytes) {
  TRIB_REQUIRE(bytes.size() <= microcode::kTailChunkBytes &&
                   offset_bytes + bytes.size() <= size(packet) - head_bytes(packet),
               microcode::rule::kWriteTail);
  copy_bytes(start_of(packet) + head_bytes(packet) + offset_bytes, bytes.data(), bytes.size());
}

void PacketBuffer::write_head(PacketHandle packet, uint32_t offset_bytes,
                              std::span<const std::byte> bytes) {
  TRIB_ASSERT(offset_bytes + bytes.size() <= head(packet).size());
  std::memcpy(start_of(packet) + offset_bytes, bytes.data(), bytes.size());
}

void PacketBuffer::push_head(PacketHandle packet, std::span<const std::byte> bytes) {
  Slot& slot = slot_of(packet);
  TRIB_ASSERT(bytes.size() <= slot.first);
  slot.first -= static_cast<uint32_t>(bytes.size());
  slot.size += static_cast<uint32_t>(bytes.size());
  copy_bytes(start_of(packet), bytes.data(), bytes.size());
}

void PacketBuffer::pop_head(PacketHandle packet, uint32_t count) {
  TRIB_ASSERT(count <= head(packet).size());
  Slot& slot = slot_of(packet);
  slot.first += count;
  slot.size -= count;
}

std::span<const std::byte> PacketBuffer::bytes(PacketHandle packet) const {
  return {start_of(packet), slot_of(packet).size};
}

std::optional<PacketHandle> PacketBuffer::begin() { return take_slot(); }

bool PacketBuffer::append(PacketHandle packet, std::span<const std::byte> chunk) {
  TRIB_ASSERT(chunk.size() <= microcode::kResultChunkBytes);
  Slot& slot = slot_of(packet);
  TRIB_ASSERT(slot.references == 1);  // Other holders may already read it.
  TRIB_ASSERT(slot.first == kHeadroomBytes);
  if (chunk.size() > config_.packet_bytes_max - slot.size) {
    counters_.refused_too_long++;
    return false;
  }
  copy_bytes(start_of(packet) + slot.size, chunk.data(), chunk.size());
  slot.size += static_cast<uint32_t>(chunk.size());
  return true;
}

void PacketBuffer::add_references(PacketHandle packet, uint32_t count) {
  Slot& slot = slot_of(packet);
  TRIB_ASSERT(count <= UINT32_MAX - slot.references);
  slot.references += count;
}

bool PacketBuffer::release(PacketHandle packet) {
  Slot& slot = slot_of(packet);
  if (--slot.references > 0) return false;
  slot.use++;  // Makes handles of the old packet stale.
  free_.push_back(packet.slot);
  return true;
}

}  // namespace tributary::engine
