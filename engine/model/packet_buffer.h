// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Packet Buffer of a packet forwarding engine: holds packets while threads work on their
/// heads, and results while threads build them (Trio paper §2.1, §4).
///
/// Shapes:  Config::packet_count slots of Config::packet_bytes_max bytes, each for one packet.
/// Units:   Sizes and offsets in bytes; tail offsets count from the tail's first byte.
/// Threads: Owned by one engine thread. Nothing here is atomic.
/// Errors:  A packet that finds no slot or is too long is refused and counted. A stale handle or a
///          chunk longer than the hardware's is a bug.
/// Memory:  A slot's memory is taken when a packet first needs it, and kept.
/// Tests:   tests/engine/model/packet_buffer_test.cc
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/packet.h"
#include "microcode/machine.h"

namespace tributary::engine {

/// Names a packet in a PacketBuffer. A default-constructed handle names none. It holds a slot and a
/// use count, so a handle that outlives its packet is detected.
struct PacketHandle {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t slot = kNone;
  uint32_t use = 0;  ///< Counts the slot's packets.

  [[nodiscard]] bool is_set() const { return slot != kNone; }
  friend bool operator==(const PacketHandle&, const PacketHandle&) = default;
};

/// A thread finds the head (the first 192 bytes) in its local memory and reads the tail in chunks
/// of at most 64 bytes. It writes a result in chunks of at most 256 bytes (§4). Destinations share
/// a payload: a packet queued to N destinations has N references, and the last release frees it.
class PacketBuffer {
 public:
  struct Config {
    uint32_t packet_count = 0;      ///< At least 1.
    uint32_t packet_bytes_max = 0;  ///< Longest packet; at least kHeadBytes.
  };
  struct Counters {
    uint64_t stored = 0;            ///< Packets stored, including begun ones.
    uint64_t refused_full = 0;      ///< No slot was free.
    uint64_t refused_too_long = 0;  ///< Longer than a slot.
    uint32_t in_use_packets_max = 0;
  };

  explicit PacketBuffer(const Config& config);

  /// Copies a packet in. The caller holds one reference.
  /// @return nullopt, counted, if no slot is free or the packet is too long.
  [[nodiscard]] std::optional<PacketHandle> store(std::span<const std::byte> packet);

  /// Returns the head: the first kHeadBytes bytes, fewer if the packet is shorter. Bytes that were
  /// pushed add to it, and bytes that were popped leave it.
  [[nodiscard]] std::span<const std::byte> head(PacketHandle packet) const;

  /// Copies tail bytes from `offset_bytes` on (Trio paper §4: "in 64-byte chunks").
  /// @pre to.size() <= kTailChunkBytes.
  /// @return bytes copied: fewer than to.size() at the tail's end, 0 past it.
  uint32_t read_tail(PacketHandle packet, uint32_t offset_bytes, std::span<std::byte> to) const;

  /// Changes bytes of the tail. @pre they lie within it; bytes.size() <= kTailChunkBytes.
  void write_tail(PacketHandle packet, uint32_t offset_bytes, std::span<const std::byte> bytes);

  [[nodiscard]] uint32_t size(PacketHandle packet) const { return slot_of(packet).size; }
  /// Changes bytes of the head. @pre the bytes lie within it.
  void write_head(PacketHandle packet, uint32_t offset_bytes, std::span<const std::byte> bytes);
  /// Prepends bytes to the packet. @pre at most kHeadroomBytes more are pushed than popped.
  void push_head(PacketHandle packet, std::span<const std::byte> bytes);
  /// Removes the first bytes of the packet. @pre they lie within the head.
  void pop_head(PacketHandle packet, uint32_t count);
  /// Returns the head's place in local memory, kHeadroomBytes unless bytes were pushed or popped.
  [[nodiscard]] uint32_t head_offset(PacketHandle packet) const { return slot_of(packet).first; }
  /// Returns the most bytes that the head has. It ends at the same place of local memory, however
  /// its beginning moves.
  [[nodiscard]] uint32_t head_bytes_max(PacketHandle packet) const {
    return kHeadroomBytes + kHeadBytes - head_offset(packet);
  }
  /// Returns the whole packet, for sending.
  [[nodiscard]] std::span<const std::byte> bytes(PacketHandle packet) const;

  /// Begins an empty packet to write. The caller holds one reference.
  /// @return nullopt, counted, if no slot is free.
  [[nodiscard]] std::optional<PacketHandle> begin();

  /// Appends a chunk to a packet that only the caller holds.
  /// @pre chunk.size() <= kResultChunkBytes and references(packet) == 1.
  /// @return false if it does not fit into the slot: nothing is written; counted.
  [[nodiscard]] bool append(PacketHandle packet, std::span<const std::byte> chunk);

  /// Adds `count` references, such as for that many further destinations.
  void add_references(PacketHandle packet, uint32_t count);
  /// Drops one reference. @return true if it was the last: the packet is freed.
  bool release(PacketHandle packet);
  [[nodiscard]] uint32_t references(PacketHandle packet) const {
    return slot_of(packet).references;
  }

  [[nodiscard]] uint32_t free_count() const {
    return config_.packet_count - static_cast<uint32_t>(slots_.size() - free_.size());
  }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Slot {
    std::unique_ptr<std::byte[]> bytes;  ///< Shape [kHeadroomBytes + packet_bytes_max].
    uint32_t first = kHeadroomBytes;     ///< The packet's first byte.
    uint32_t size = 0;
    uint32_t references = 0;  ///< 0: free.
    uint32_t use = 0;
  };

  [[nodiscard]] uint32_t head_bytes(PacketHandle packet) const {
    return std::min(size(packet), head_bytes_max(packet));
  }
  [[nodiscard]] std::optional<PacketHandle> take_slot();
  [[nodiscard]] const Slot& slot_of(PacketHandle packet) const;
  [[nodiscard]] Slot& slot_of(PacketHandle packet);
  [[nodiscard]] std::byte* start_of(PacketHandle packet) const {
    return slots_[packet.slot].bytes.get() + slots_[packet.slot].first;
  }

  const Config config_;
  std::vector<Slot> slots_;     ///< The slots used so far, at most packet_count.
  std::vector<uint32_t> free_;  ///< Last in, first out, so a few packets stay in cache.
  Counters counters_;
};

/// Serves microcode::Machine::read_tail(). `Buffer` is PacketBuffer or PacketStore.
template <class Buffer>
struct TailRead {
  const Buffer* buffer;
  PacketHandle packet;
  uint32_t offset_bytes;
  std::span<std::byte> to;

  [[nodiscard]] microcode::Xtxn request() const {
    return {microcode::XtxnKind::kTailRead, nullptr, static_cast<uint32_t>(to.size())};
  }
  uint32_t operator()() const { return buffer->read_tail(packet, offset_bytes, to); }
};

/// Serves microcode::Machine::write_tail().
template <class Buffer>
struct TailWrite {
  Buffer* buffer;
  PacketHandle packet;
  uint32_t offset_bytes;
  std::span<const std::byte> bytes;

  [[nodiscard]] microcode::Xtxn request() const {
    return {microcode::XtxnKind::kTailWrite, nullptr, static_cast<uint32_t>(bytes.size())};
  }
  void operator()() const { buffer->write_tail(packet, offset_bytes, bytes); }
};

}  // namespace tributary::engine
