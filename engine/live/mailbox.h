// SPDX-License-Identifier: Apache-2.0
/// @file
/// Queues for packets that reached the wrong core, on their way to the core that owns them.
///
/// Model:   The port steers packets to their owner's core. Where it cannot, the packet is copied
///          once into the owner's mailbox. Cores share no payload in any other way, because reading
///          4 KB that another core wrote costs more than all other work on the packet.
/// Shapes:  One lane for each posting core: a ring of kLaneBuffers packets. Class Lane draws it.
/// Threads: post(from, …) by core `from` alone; take() and free_taken() by the owner. No lock: a
///          descheduled core that held one would block the others.
/// Memory:  Taken in the constructor, touched only where used. A full lane drops and counts the
///          packet, like a full receive queue.
/// Tests:   tests/engine/live/mailbox_test.cc; tests/io/dpdk/hand_off_bench.cc
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/packet.h"
#include "engine/port.h"

namespace tributary::engine {

class Mailbox {
 public:
  /// Two bursts: the owner works on one while the next arrives.
  static constexpr uint32_t kLaneBuffers = 2 * kBurstPackets;

  /// @param buffer_bytes Largest packet that fits.
  /// @param core_count   Posting cores, including the owner.
  /// @param owner        The queue on which the owner sleeps.
  Mailbox(uint32_t buffer_bytes, uint32_t core_count, PortQueue& owner);

  /// Copies the packet into the lane of core `from`, for the next deliver().
  /// @return false if the lane is full or the packet is larger than a buffer.
  [[nodiscard]] bool post(uint32_t from, const Packet& packet);
  /// Publishes the packets that core `from` has posted and wakes the owner. Call it once after a
  /// burst of post()s.
  void deliver(uint32_t from);

  /// Fills `burst` from its beginning. Packets of one lane keep the order of their post(). They
  /// stay valid until the next free_taken(). @return how many were filled.
  [[nodiscard]] uint32_t take(std::span<Packet> burst);
  /// Frees the buffers of all packets taken so far.
  void free_taken();

 private:
  /// The ring of one posting core. Its counters only grow (modulo 2^32), so they divide it into
  ///
  ///   freed            taken             posted         freed + kLaneBuffers
  ///     | with the owner | not yet taken   |     free     |
  ///
  /// The posting core writes `posted`; the owner writes `taken` and `freed`. State of different
  /// cores lies 128 bytes apart.
  struct Lane {
    /// The posting core's own state: packets posted, and the last `freed` that it read.
    alignas(128) uint32_t posted = 0;
    uint32_t freed_seen = 0;
    /// Release in deliver(), acquire in take(): a core that sees the count sees the packets.
    alignas(128) std::atomic<uint32_t> delivered{0};
    /// Release in free_taken(), acquire in post(): the owner has read the buffers to overwrite.
    alignas(128) std::atomic<uint32_t> freed{0};
    uint32_t taken = 0;
    alignas(128) std::array<Packet, kLaneBuffers> packets;
    std::unique_ptr<std::byte[]> bytes;  ///< Shape [kLaneBuffers][buffer_bytes_].
  };

  const uint32_t buffer_bytes_;
  PortQueue& owner_;
  std::vector<Lane> lanes_;  ///< Shape [core_count].
  uint32_t lane_first_ = 0;  ///< The lane to empty first; changes with each take().
};

}  // namespace tributary::engine
