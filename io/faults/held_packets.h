// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of packets that an impaired port holds back for a while.
///
/// Model:   A slot is free, lent or held. A lent slot is readable until reclaim(). A held slot
///          counts down the later packets and the later calls; it is due when either count is 0.
///          take_due() takes due packets in the order in which they were held, and lends them.
/// Threads: Not synchronised; owned by one queue's thread.
/// Errors:  copy() returns none if no slot is free or the packet is larger than a slot.
/// Memory:  kSlots * slot_bytes, taken in the constructor.
/// Tests:   through tests/io/faults/impaired_port_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/endpoint.h"
#include "engine/packet.h"

namespace tributary::io {

class HeldPackets {
 public:
  static constexpr uint32_t kSlots = 128;

  struct Slot {
    std::byte* data = nullptr;
    uint32_t size = 0;
    engine::PacketLayer layer = engine::PacketLayer::kUdpPayload;
    Endpoint endpoint;  ///< Sender of a received packet, destination of a sent one.
    uint32_t packets_left = 0;
    uint32_t calls_left = 0;
  };

  explicit HeldPackets(uint32_t slot_bytes);

  /// Copies a packet into a free slot and lends the slot. @return the slot's index.
  [[nodiscard]] std::optional<uint32_t> copy(std::span<const std::byte> bytes,
                                             engine::PacketLayer layer, const Endpoint& endpoint);

  [[nodiscard]] const Slot& slot(uint32_t index) const { return slots_[index]; }

  /// Holds a lent slot. It is due when either count reaches 0.
  void hold(uint32_t index, uint32_t packets_left, uint32_t calls_left);

  /// Counts one later packet for every held slot.
  void packet_passed();
  /// Counts one later call for every held slot.
  void call_passed();
  /// Makes every held slot due.
  void make_all_due();

  /// Takes the first due slot, lends it and returns its index.
  [[nodiscard]] std::optional<uint32_t> take_due();
  [[nodiscard]] bool has_free() const { return free_count_ != 0; }
  [[nodiscard]] bool holds_any() const { return held_count_ != 0; }

  /// Frees every lent slot.
  void reclaim();

 private:
  const uint32_t slot_bytes_;
  const std::unique_ptr<std::byte[]> storage_;  ///< Shape [kSlots][slot_bytes_].
  std::array<Slot, kSlots> slots_;
  std::array<uint32_t, kSlots> free_{};  ///< A stack of indices.
  std::array<uint32_t, kSlots> lent_{};  ///< A stack of indices.
  std::array<uint32_t, kSlots> held_{};  ///< Indices in the order of hold().
  uint32_t free_count_ = 0;
  uint32_t lent_count_ = 0;
  uint32_t held_count_ = 0;
};

}  // namespace tributary::io
