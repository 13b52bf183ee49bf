// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of packets that are kept back for a while, in storage taken once.
///
/// Model:   A slot is free; lent (readable until reclaim()); or held, with a count of packets that
///          shall pass and of calls that may pass before it is due. Due packets are taken in the
///          order in which they were held, and are then lent.
/// Threads: Not synchronised; owned by one queue's thread.
/// Errors:  No free slot, or a packet larger than one: copy() gives none.
/// Memory:  kSlots * slot_bytes, taken in the constructor.
/// Tests:   by way of tests/io/faults/impaired_port_test.cc
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
    Endpoint endpoint;  ///< Where from, or where to.
    uint32_t packets_left = 0;
    uint32_t calls_left = 0;
  };

  explicit HeldPackets(uint32_t slot_bytes);

  /// Copies a packet into a slot, lent. @return its index.
  [[nodiscard]] std::optional<uint32_t> copy(std::span<const std::byte> bytes,
                                             engine::PacketLayer layer, const Endpoint& endpoint);

  [[nodiscard]] const Slot& slot(uint32_t index) const { return slots_[index]; }

  /// Makes a lent slot a held one; it is due as soon as either count has run down to 0.
  void hold(uint32_t index, uint32_t packets_left, uint32_t calls_left);

  /// A later packet, or a later call, has passed all that is held.
  void packet_passed();
  void call_passed();
  /// Everything that is held becomes due.
  void make_all_due();

  /// The first that is due, lent from now on.
  [[nodiscard]] std::optional<uint32_t> take_due();
  [[nodiscard]] bool has_free() const { return free_count_ != 0; }
  [[nodiscard]] bool holds_any() const { return held_count_ != 0; }

  /// Frees every lent slot.
  void reclaim();

 private:
  const uint32_t slot_bytes_;
  const std::unique_ptr<std::byte[]> storage_;  ///< Shape [kSlots][slot_bytes_].
  std::array<Slot, kSlots> slots_;
  std::array<uint32_t, kSlots> free_{};  ///< A stack of indices, as lent_; held_ is in order.
  std::array<uint32_t, kSlots> lent_{};
  std::array<uint32_t, kSlots> held_{};
  uint32_t free_count_ = 0;
  uint32_t lent_count_ = 0;
  uint32_t held_count_ = 0;
};

}  // namespace tributary::io
