// SPDX-License-Identifier: Apache-2.0
/// @file
/// Holds the modelled machine's packets in two packet buffers: one for packets of at most a head
/// (control messages, elided payloads), one for longer packets. So tens of thousands of waiting
/// heads lie close together.
///
/// Shapes:  Each buffer has packet_count slots.
/// Threads: One.
/// Errors:  A full buffer returns nullopt. A packet above packet_bytes_max is a bug.
/// Memory:  Address space at once, pages when first used.
/// Tests:   tests/engine/model/packet_store_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/assert.h"
#include "engine/model/packet_buffer.h"

namespace tributary::engine {

class PacketStore {
 public:
  /// @param packet_count At most 2^31 - 1.
  PacketStore(uint32_t packet_count, uint32_t packet_bytes_max)
      : heads_({.packet_count = packet_count, .packet_bytes_max = kHeadBytes}),
        whole_({.packet_count = packet_count, .packet_bytes_max = packet_bytes_max}),
        packet_bytes_max_(packet_bytes_max) {
    TRIB_ASSERT(packet_count < kWhole);
  }

  /// Copies a packet in. @return nullopt if there is no room.
  [[nodiscard]] std::optional<PacketHandle> store(std::span<const std::byte> packet) {
    TRIB_ASSERT(packet.size() <= packet_bytes_max_);
    if (packet.size() <= kHeadBytes) return heads_.store(packet);
    auto handle = whole_.store(packet);
    if (handle) handle->slot |= kWhole;
    return handle;
  }
  [[nodiscard]] std::span<const std::byte> bytes(PacketHandle packet) const {
    return is_whole(packet) ? whole_.bytes(inner(packet)) : heads_.bytes(packet);
  }
  /// Changes bytes of the head. @pre the bytes lie within it.
  void write_head(PacketHandle packet, uint32_t offset_bytes, std::span<const std::byte> bytes) {
    if (is_whole(packet)) {
      whole_.write_head(inner(packet), offset_bytes, bytes);
    } else {
      heads_.write_head(packet, offset_bytes, bytes);
    }
  }
  /// See PacketBuffer.
  void push_head(PacketHandle packet, std::span<const std::byte> bytes) {
    if (is_whole(packet)) {
      whole_.push_head(inner(packet), bytes);
    } else {
      heads_.push_head(packet, bytes);
    }
  }
  void pop_head(PacketHandle packet, uint32_t count) {
    if (is_whole(packet)) {
      whole_.pop_head(inner(packet), count);
    } else {
      heads_.pop_head(packet, count);
    }
  }
  [[nodiscard]] uint32_t read_tail(PacketHandle packet, uint32_t offset_bytes,
                                   std::span<std::byte> to) const {
    return is_whole(packet) ? whole_.read_tail(inner(packet), offset_bytes, to)
                            : heads_.read_tail(packet, offset_bytes, to);
  }
  void write_tail(PacketHandle packet, uint32_t offset_bytes, std::span<const std::byte> bytes) {
    if (is_whole(packet)) {
      whole_.write_tail(inner(packet), offset_bytes, bytes);
    } else {
      heads_.write_tail(packet, offset_bytes, bytes);
    }
  }
  [[nodiscard]] uint32_t head_offset(PacketHandle packet) const {
    return is_whole(packet) ? whole_.head_offset(inner(packet)) : heads_.head_offset(packet);
  }
  [[nodiscard]] uint32_t head_bytes_max(PacketHandle packet) const {
    return is_whole(packet) ? whole_.head_bytes_max(inner(packet)) : heads_.head_bytes_max(packet);
  }
  /// Adds references, each of which needs a release().
  void add_references(PacketHandle packet, uint32_t count) {
    if (is_whole(packet)) {
      whole_.add_references(inner(packet), count);
    } else {
      heads_.add_references(packet, count);
    }
  }
  /// Drops one reference. The last one frees the packet.
  void release(PacketHandle packet) {
    if (is_whole(packet)) {
      whole_.release(inner(packet));
    } else {
      heads_.release(packet);
    }
  }
  /// Returns the number of packets held.
  [[nodiscard]] uint32_t count() const {
    return 2 * whole_capacity_ - heads_.free_count() - whole_.free_count();
  }

 private:
  static constexpr uint32_t kWhole = uint32_t{1} << 31;
  [[nodiscard]] static bool is_whole(PacketHandle packet) { return (packet.slot & kWhole) != 0; }
  [[nodiscard]] static PacketHandle inner(PacketHandle packet) {
    return {packet.slot & ~kWhole, packet.use};
  }

  PacketBuffer heads_;
  PacketBuffer whole_;
  const uint32_t packet_bytes_max_;
  const uint32_t whole_capacity_ = whole_.free_count();
};

}  // namespace tributary::engine
