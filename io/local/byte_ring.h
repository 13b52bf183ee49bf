// SPDX-License-Identifier: Apache-2.0
/// @file
/// A ring of packets in memory that two processes share: one writes, the other reads.
///
/// Model:   Positions count bytes and never wrap. A record is a size and the packet, rounded up to
///          whole units of 64 bytes. The writer drops a packet that finds no room.
/// Threads: One RingWriter and one RingReader for each ring, each owned by one thread.
/// Trust:   The other side may be hostile and may write the memory at any time. Each value is read
///          once and checked; a side keeps its own position to itself. Packets are copied out.
/// Errors:  A position or size that no honest side writes makes the ring broken for good.
/// Memory:  Taken by the caller; see io/local/ring_memory.h.
/// Tests:   tests/io/local/byte_ring_test.cc
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary::io {

/// The shared words of a ring. Each has a pair of cache lines of its own, because different cores
/// write them. A new ring is all zeros.
struct RingWords {
  alignas(128) std::atomic<uint64_t> written{0};  ///< Bytes; by the writer.
  alignas(128) std::atomic<uint64_t> read{0};     ///< Bytes; by the reader.
  /// Not 0: the reader sleeps, or is about to. Set by the reader, cleared by both.
  alignas(128) std::atomic<uint32_t> reader_sleeps{0};
};
static_assert(sizeof(RingWords) == 384 && std::atomic<uint64_t>::is_always_lock_free);

/// Unit of space in a ring: a cache line.
inline constexpr uint32_t kRingUnitBytes = 64;
/// The size in front of a packet's bytes; its upper half is 0.
inline constexpr uint32_t kRecordHeadBytes = 8;

/// Returns the space that a packet takes in a ring.
[[nodiscard]] constexpr uint32_t record_bytes(uint32_t packet_bytes) {
  return (kRecordHeadBytes + packet_bytes + kRingUnitBytes - 1) / kRingUnitBytes * kRingUnitBytes;
}
static_assert(record_bytes(0) == 64 && record_bytes(56) == 64 && record_bytes(57) == 128);

/// A ring in this process's address space.
struct ByteRing {
  RingWords* words = nullptr;
  std::span<std::byte> data;      ///< A power of two of at least kRingUnitBytes.
  uint32_t packet_bytes_max = 0;  ///< record_bytes() of it fits `data`.
};

class RingWriter {
 public:
  explicit RingWriter(const ByteRing& ring) : ring_(ring) {}

  /// Copies a packet into the ring; publish() shows it to the reader.
  /// @return false if it is too large or finds no room, or if the ring is broken.
  [[nodiscard]] bool push(std::span<const std::byte> packet);

  /// Shows the pushed packets to the reader.
  /// @return true if the reader sleeps, and the caller must wake it.
  [[nodiscard]] bool publish();

  [[nodiscard]] bool broken() const { return broken_; }

 private:
  [[nodiscard]] bool has_room(uint64_t bytes);

  const ByteRing ring_;
  uint64_t written_ = 0;
  uint64_t read_seen_ = 0;  ///< The reader's position when last looked at.
  bool broken_ = false;
};

class RingReader {
 public:
  explicit RingReader(const ByteRing& ring) : ring_(ring) {}

  enum class Status : uint8_t { kPacket, kEmpty, kNoRoom, kBroken };
  struct Popped {
    Status status;
    uint32_t size = 0;
  };

  /// Copies the oldest packet to the beginning of `out`. Without room it stays in the ring.
  [[nodiscard]] Popped pop(std::span<std::byte> out);

  /// Returns the space of the popped packets to the writer.
  void release();

  /// Announces that this side will sleep. @return false if a packet is there: do not sleep.
  [[nodiscard]] bool prepare_sleep();
  /// Withdraws the announcement.
  void end_sleep();

  [[nodiscard]] bool broken() const { return broken_; }

 private:
  [[nodiscard]] bool look();
  Popped fail();

  const ByteRing ring_;
  uint64_t read_ = 0;
  uint64_t released_ = 0;
  uint64_t written_seen_ = 0;  ///< The writer's position when last looked at; checked.
  bool broken_ = false;
};

}  // namespace tributary::io
