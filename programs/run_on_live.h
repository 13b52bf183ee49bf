// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a program over a capture on the live machine: one core whose clock is the capture's.
///
/// Model:   Each packet is a burst of its own at its own time. Timer threads that are due at or
///          before a packet's arrival run first, at their own times.
/// Threads: One.
/// Tests:   tests/programs/program_test.cc
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/running_program.h"
#include "engine/live/live_core.h"
#include "programs/capture_feed.h"
#include "programs/capture_output.h"

namespace tributary::programs {

/// A port that delivers one packet at a time.
class CapturePort final : public engine::PortQueue {
 public:
  explicit CapturePort(CaptureOutput& output) : output_(output) {}

  /// The next receive() delivers `packet`, which must stay valid until the round ends.
  void offer(const FedPacket& packet) {
    offered_ = &packet;
    // A copy, because a program may change the head.
    bytes_.resize(engine::kHeadroomBytes + packet.bytes.size());
    std::copy(packet.bytes.begin(), packet.bytes.end(), bytes_.begin() + engine::kHeadroomBytes);
  }

  [[nodiscard]] uint32_t receive(std::span<engine::Packet> burst) override {
    if (offered_ == nullptr) return 0;
    burst[0] = {.data = bytes_.data() + engine::kHeadroomBytes,
                .size = static_cast<uint32_t>(bytes_.size()) - engine::kHeadroomBytes,
                .layer = engine::PacketLayer::kFrame,
                .source = {},
                .headroom_bytes = engine::kHeadroomBytes};
    current_ = std::exchange(offered_, nullptr);
    return 1;
  }
  void transmit(std::span<const engine::TxPacket> packets) override {
    for (const engine::TxPacket& packet : packets) {
      if (packet.layer == engine::PacketLayer::kFrame) {
        output_.forward(current_->captured.at, {packet.data, packet.size}, current_->filled_bytes(),
                        current_->missing_bytes());
      } else {
        output_.message({packet.data, packet.size});
      }
    }
  }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

 private:
  CaptureOutput& output_;
  const FedPacket* offered_ = nullptr;
  const FedPacket* current_ = nullptr;  ///< Delivered last.
  std::vector<std::byte> bytes_;        ///< Headroom and packet.
};

/// Runs the timer threads that are due between two packets, each at its own time. After kGapMax
/// those that remain run once, at `until`. A program with skip_idle() passes over times at which
/// its timer threads would visit nothing.
template <engine::LiveProgram App>
void run_timers(engine::LiveCore<App>& core, Instant since, Instant until) {
  const auto skip_idle = [&] {
    if constexpr (requires { core.program().skip_idle(since, until); }) {
      core.program().skip_idle(since, until);
    }
  };
  const Instant rest_from = since + kGapMax;
  skip_idle();
  for (Instant due = core.program().next_due(); due <= std::min(until, rest_from);) {
    core.run_once(due);
    skip_idle();
    const Instant next = core.program().next_due();
    TRIB_ASSERT(next > due);
    due = next;
  }
  if (core.program().next_due() <= until) core.run_once(until);
}

struct LiveRun {
  uint64_t dropped = 0;        ///< Packets that the app dropped.
  uint64_t ended_wrongly = 0;  ///< Packets that it did not forward or drop once.
};

/// Feeds the whole capture to `app`.
template <engine::LiveProgram App>
LiveRun run_on_live(App app, CaptureFeed& feed, CaptureOutput& output) {
  static constexpr RunningProgram kProgram = running_program_of<App>();
  const RunningProgramScope scope(kProgram);
  CapturePort port(output);
  engine::LiveCore<App> core(0, port, std::move(app), {});
  LiveRun run;
  uint64_t ended = 0;
  Instant last_at;
  while (const FedPacket* packet = feed.next()) {
    run_timers(core, last_at, packet->at);
    last_at = packet->at;
    port.offer(*packet);
    core.run_once(packet->at);
    const engine::MachineCounters& counted = core.machine_counters();
    if (counted.forwarded + counted.dropped != ++ended) {
      run.ended_wrongly++;
      ended = counted.forwarded + counted.dropped;
    }
    if (output.problem()) break;
  }
  core.stop(feed.last_at());
  run.dropped = core.machine_counters().dropped;
  return run;
}

}  // namespace tributary::programs
