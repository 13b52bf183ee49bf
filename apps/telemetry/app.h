// SPDX-License-Identifier: Apache-2.0
/// @file
/// Flow telemetry as a program for an engine: starts threads for packets and timers, and tells
/// which core owns a packet.
///
/// Threads: Belongs to one core, like its TelemetryState.
/// Tests:   tests/apps/telemetry/telemetry_test.cc, tests/apps/telemetry/expiry_test.cc
#pragma once

#include <algorithm>
#include <span>

#include "apps/telemetry/expiry.h"
#include "apps/telemetry/program.h"
#include "apps/telemetry/telemetry.h"
#include "engine/packet.h"

namespace tributary::telemetry {

class App {
 public:
  /// The name of the program in errors.
  static constexpr const char* kName = "telemetry";
  /// The most packets that prefetch() takes.
  static constexpr uint32_t kPrefetchPackets = apps::kNotesMax;

  explicit App(TelemetryState& state) : state_(state) {}

  void begin_burst() { state_.begin_burst(); }
  /// Reads the flows of the packets that process() will run next, and prefetches their records.
  void prefetch(std::span<const engine::Packet> burst) {
    const auto read = [](const engine::Packet& packet, FlowNote& note) {
      note.fit = apps::read_flow(packet.bytes(), packet.is_frame(), note.packet);
      return note.fit == apps::FlowFit::kFits;
    };
    apps::prefetch_burst(
        state_.notes(), burst, read,
        [this](FlowNote& note) { note.hash = state_.prefetch_index(note.packet.key); },
        [this](const FlowNote& note) { state_.prefetch_record(note.hash); });
  }
  /// Runs the packet's thread. Every packet is forwarded unchanged.
  template <microcode::Machine M>
  void process(M& m) {
    if constexpr (M::kSuspends) {
      process_packet(m, state_);
    } else {
      process_in_place(m, state_);
    }
  }
  /// Runs the timer threads that are due.
  template <microcode::Machine M>
  void run_timers(M& m, Instant now) {
    state_.idle_timers().due(now, [&](const timers::TimerSlice& slice) {
      if (state_.flow_count() > 0) expire_idle_flows(m, state_, slice);
    });
    state_.age_timers().due(now, [&](const timers::TimerSlice& slice) {
      if (state_.flow_count() > 0) export_old_flows(m, state_, slice);
    });
  }
  /// Starts the thread that exports all remaining flows. It waits for packets that a record has
  /// admitted. A packet whose thread makes a record later needs another stop(), so call it when the
  /// last packet's thread has ended.
  template <microcode::Machine M>
  void stop(M& m) {
    export_all_flows(m, state_);
  }
  [[nodiscard]] Instant next_due() const { return state_.next_due(); }
  /// Passes over the timer threads that have no flow to visit, as if they had run.
  /// Without a packet, an empty store stays empty.
  /// @param until No packet arrives before.
  void skip_idle(Instant /*since*/, Instant until) {
    if (state_.flow_count() > 0) return;
    const auto visit_nothing = [](const timers::TimerSlice&) {};
    state_.idle_timers().due(until, visit_nothing);
    state_.age_timers().due(until, visit_nothing);
  }

  /// Tells whether a capture has cut a header that a record needs. Such a frame counts as
  /// truncated.
  [[nodiscard]] static bool headers_cut(std::span<const std::byte> held, uint32_t wire_bytes) {
    return apps::are_headers_cut(held, wire_bytes);
  }
  /// Returns the core that owns a packet: that of its flow. The two directions of a connection are
  /// two flows. Core 0 owns packets that belong to no flow.
  /// @param core_count A power of two.
  [[nodiscard]] static uint32_t owner(std::span<const std::byte> packet, bool is_frame,
                                      uint32_t core_count) {
    apps::FlowPacket flow;
    if (apps::read_flow(packet, is_frame, flow) != apps::FlowFit::kFits) return 0;
    // Another part of the hash than the store's, so that each core uses all of its buckets.
    return static_cast<uint32_t>(apps::FlowKeyHash{}(flow.key, /*seed=*/0) >> 32) &
           (core_count - 1);
  }

 private:
  TelemetryState& state_;
};

}  // namespace tributary::telemetry
