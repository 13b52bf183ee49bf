// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets that reached the wrong core, on their way to the core that owns them.
///
/// Model:   Run to completion passes no payload between cores (a 4 KB payload written by another
///          core costs more to touch than its whole work); steering in the port brings packets to
///          the right core. Where it cannot, the packet is copied once into the owner's mailbox.
/// Shapes:  One lane for each core that posts, a ring of kLaneBuffers packets. A lane's counters
///          only grow (modulo 2^32), so what lies between them is
///
///            freed          taken            posted         freed + kLaneBuffers
///              | with the owner | waits for it  |    free      |
///
///          `posted` belongs to the posting core, the others to the owner.
/// Threads: post(from, …) by core `from` alone; take() and free_taken() by the owner. No lock: a
///          core that was put to sleep holding one would hold up the others.
/// Memory:  Taken in the constructor, touched only where used. When a lane is full the packet is
///          lost and counted, as in a full receive queue.
/// Tests:   tests/engine/live/mailbox_test.cc; tests/io/dpdk/hand_off_bench.cc beside two libraries
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
  /// Two bursts: one that the owner works on, one that comes meanwhile.
  static constexpr uint32_t kLaneBuffers = 2 * kBurstPackets;

  /// @param buffer_bytes Largest packet that fits.
  /// @param core_count   Cores that post, the owner among them.
  /// @param owner        The queue on which the owner sleeps.
  Mailbox(uint32_t buffer_bytes, uint32_t core_count, PortQueue& owner);

  /// Copies the packet into the lane of core `from`, for the next deliver(). @return false when
  /// there is no room for it.
  [[nodiscard]] bool post(uint32_t from, const Packet& packet);
  /// Shows the owner what core `from` has posted, and wakes it; once after a burst of post()s.
  void deliver(uint32_t from);

  /// Fills `burst` from its beginning, each lane's packets in the order of their post(); they stay
  /// valid until the next free_taken().
  [[nodiscard]] uint32_t take(std::span<Packet> burst);
  /// The packets taken before are done with.
  void free_taken();

 private:
  /// State of different cores lies 128 bytes apart.
  struct Lane {
    /// The posting core's own: what it has posted, and the `freed` that it saw last.
    alignas(128) uint32_t posted = 0;
    uint32_t freed_seen = 0;
    /// Release in deliver(), acquire in take(): who sees the count sees the packets.
    alignas(128) std::atomic<uint32_t> delivered{0};
    /// Release in free_taken(), acquire in post(): the owner has read what is overwritten.
    alignas(128) std::atomic<uint32_t> freed{0};
    uint32_t taken = 0;
    alignas(128) std::array<Packet, kLaneBuffers> packets;
    std::unique_ptr<std::byte[]> bytes;  ///< Shape [kLaneBuffers][buffer_bytes_].
  };

  const uint32_t buffer_bytes_;
  PortQueue& owner_;
  std::vector<Lane> lanes_;  ///< Shape [core_count].
  uint32_t lane_first_ = 0;  ///< Who is emptied first takes turns.
};

}  // namespace tributary::engine
