// SPDX-License-Identifier: Apache-2.0
/// @file
/// Flow telemetry as a program for an engine: starts threads for packets and timers, and tells which
/// core owns a packet.
///
/// Threads: Belongs to one core, like its TelemetryState.
/// Tests:   tests/apps/telemetry/telemetry_test.cc, tests/apps/telemetry/expiry_test.cc
#pragma once

#include <algorithm>
#include <span>

#include "apps/telemetry/expiry.h"
#include "apps/telemetry/program.h"
#include "apps/telemetry/telemetry.h"

namespace tributary::telemetry {

class App {
 public:
  /// The name of the program in errors.
  static constexpr const char* kName = "telemetry";

  explicit App(TelemetryState& state) : state_(state) {}

  void begin_burst() { state_.begin_burst(); }
  /// Runs the thread for the packet. Every packet is forwarded unchanged.
  template <microcode::Machine M>
  void process(M& m) {
    process_packet(m, state_);
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
