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
#include "engine/packet.h"

namespace tributary::guard {

class App {
 public:
  /// The name of the program in errors.
  static constexpr const char* kName = "guard";
  /// The most packets that prefetch() takes.
  static constexpr uint32_t kPrefetchPackets = apps::kNotesMax;

  explicit App(GuardState& state) : state_(state) {}

  static void begin_burst() {}
  /// Reads the packets that process() will run next, and prefetches their records.
  void prefetch(std::span<const engine::Packet> burst) {
    const auto read = [](const engine::Packet& packet, GuardNote& note) {
      apps::FlowPacket flow;
      const apps::FlowFit fit = apps::read_flow(packet.bytes(), packet.is_frame(), flow);
      note.fit = take_facts(flow, fit, note.facts);
      return note.fit == apps::FlowFit::kFits;
    };
    apps::prefetch_burst(
        state_.notes(), burst, read, [this](GuardNote& note) { state_.prefetch_index(note); },
        [this](const GuardNote& note) { state_.prefetch_record(note); });
  }
  /// Runs the packet's thread, which forwards or drops it.
  template <microcode::Machine M>
  void process(M& m) {
    if constexpr (M::kSuspends) {
      guard_packet(m, state_);
    } else {
      guard_in_place(m, state_);
    }
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
  /// Passes over the timer threads that would change nothing, as if they had run. Without a packet,
  /// an empty store stays empty, and two rotations forget all known sources.
  /// @param since The last packet's time. @param until No packet arrives before.
  void skip_idle(Instant since, Instant until) {
    const auto visit_nothing = [](const timers::TimerSlice&) {};
    if (state_.destination_count() == 0) state_.destination_timers().due(until, visit_nothing);
    if (state_.suspect_count() == 0) state_.suspect_timers().due(until, visit_nothing);
    timers::PeriodicTimers& known = state_.known_timers();
    if (known.next_due() > since + known.config().period * 2) known.due(until, visit_nothing);
  }

  /// Tells whether a capture has cut a header that the guard needs. Such a frame counts as
  /// truncated.
  [[nodiscard]] static bool headers_cut(std::span<const std::byte> held, uint32_t wire_bytes) {
    return apps::are_headers_cut(held, wire_bytes);
  }
  /// Returns the core that owns a packet: the same for all packets to one destination, because all
  /// state belongs to destinations. Core 0 owns packets without an IP destination.
  /// @param core_count A power of two.
  [[nodiscard]] static uint32_t owner(std::span<const std::byte> packet, bool is_frame,
                                      uint32_t core_count);

 private:
  GuardState& state_;
};

}  // namespace tributary::guard
