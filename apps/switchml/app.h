// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML as a program for an engine: runs threads for packets, and tells which core owns a
/// packet. It has no timers: SwitchML's switch acts on packets only.
///
/// Threads: Belongs to one core, like its Shard.
/// Tests:   tests/apps/switchml/
#pragma once

#include "apps/switchml/program.h"
#include "apps/switchml/switchml.h"

namespace tributary::switchml {

class App {
 public:
  /// The name of the program in errors.
  static constexpr const char* kName = "switchml";

  explicit App(Shard& shard) : shard_(shard) {}

  void begin_burst() { shard_.begin_burst(); }
  /// Runs the thread for the packet.
  template <microcode::Machine M>
  void process(M& m) {
    process_packet(m, shard_);
  }
  template <microcode::Machine M>
  static void run_timers(M&, Instant) {}
  [[nodiscard]] static Instant next_due() { return Instant::never(); }

  /// Returns the core that owns a packet. Core 0 owns packets that are too short.
  /// @param core_count A power of two.
  [[nodiscard]] static uint32_t owner(std::span<const std::byte> packet, bool is_frame,
                                      uint32_t core_count) {
    const uint32_t offset = is_frame ? apps::frame_payload_offset(packet) : 0;
    if (packet.size() < offset + SwitchmlHeader::kBytes) return 0;
    return owner_of(SwitchmlHeader::Slot::load(packet.data() + offset), core_count);
  }

 private:
  Shard& shard_;
};

}  // namespace tributary::switchml
