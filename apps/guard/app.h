// SPDX-License-Identifier: Apache-2.0
/// @file
/// The guard as a program for an engine: runs threads for packets and timers, and tells which core
/// owns a packet.
///
/// Threads: Belongs to one core, like its GuardState.
/// Tests:   tests/apps/guard/app_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "apps/guard/program.h"

namespace tributary::guard {

class App {
 public:
  /// The name of the program in errors.
  static constexpr const char* kName = "guard";

  explicit App(GuardState& state) : state_(state) {}

  static void begin_burst() {}
  /// Starts the packet's thread, which forwards or drops it.
  template <microcode::Machine M>
  void process(M& m) {
    guard_packet(m, state_);
  }
  /// Starts the timer threads that are due.
  template <microcode::Machine M>
  void run_timers(M& m, Instant now) {
    state_.destination_timers().due(now, [&](const timers::TimerSlice& slice) {
      if (state_.destination_count() > 0) judge_destinations(m, state_, slice, now);
    });
    state_.suspect_timers().due(now, [&](const timers::TimerSlice& slice) {
      if (state_.suspect_count() > 0) judge_suspects(m, state_, slice, now);
    });
    state_.known_timers().due(
        now, [&](const timers::TimerSlice& slice) { rotate_known(m, state_, slice); });
  }
  [[nodiscard]] Instant next_due() const { return state_.next_due(); }

  /// Returns the core that owns a packet: the same for all packets to one destination, because all
  /// state belongs to destinations. Core 0 owns packets without an IP destination.
  /// @param core_count A power of two.
  [[nodiscard]] static uint32_t owner(std::span<const std::byte> packet, bool is_frame,
                                      uint32_t core_count);

 private:
  GuardState& state_;
};

}  // namespace tributary::guard
