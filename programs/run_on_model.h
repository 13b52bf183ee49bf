// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a program on a modelled PFE: packets of a capture, or of any other source, arrive at their
/// times.
///
/// Model:   A capture is one flow, so forwarded packets leave in the order of the file.
/// Threads: One.
/// Tests:   tests/programs/program_test.cc, tests/programs/overlapping_timers_test.cc
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "base/event_core.h"
#include "engine/model/pfe.h"
#include "memory/shared_memory.h"
#include "programs/capture_feed.h"
#include "programs/capture_output.h"
#include "programs/run_report.h"

namespace tributary::programs {

/// Finds the captured packet that a PFE forwards, by the packet's number.
class ModelOutput final : public engine::PfeSink {
 public:
  /// @param inside_max Most packets inside the PFE at once.
  ModelOutput(CaptureOutput& output, uint32_t inside_max)
      : output_(output), inside_max_(inside_max) {}

  /// Remembers a packet that is about to arrive.
  void add(const FedPacket& packet) {
    inside_.push_back({packet.captured.at, packet.filled_bytes(), packet.missing_bytes()});
    // Packets leave in order, so the oldest of more than inside_max_ has left.
    if (inside_.size() > inside_max_) forget_first();
  }
  /// Forgets all packets. @pre none is inside.
  void clear() {
    first_number_ += inside_.size();
    inside_.clear();
  }

  void send(std::span<const std::byte> stored, uint32_t, std::span<const Endpoint>) override {
    output_.message(stored);
  }
  void forward(std::span<const std::byte> stored, uint32_t, const Endpoint&,
               uint64_t number) override {
    while (first_number_ < number) forget_first();
    const Inside& packet = inside_.front();
    output_.forward(packet.at, stored, packet.filled_bytes, packet.missing_bytes);
    forget_first();
  }

 private:
  struct Inside {
    io::CaptureTime at;
    uint32_t filled_bytes;  ///< As FedPacket's.
    uint32_t missing_bytes;
  };
  void forget_first() {
    inside_.pop_front();
    first_number_++;
  }

  CaptureOutput& output_;
  const uint32_t inside_max_;
  std::deque<Inside> inside_;
  uint64_t first_number_ = 1;  ///< The number of inside_'s first packet.
};

/// A packet for feed_pfe().
struct TimedBytes {
  Instant at;
  std::span<const std::byte> bytes;  ///< A frame; valid until the next packet is asked for.
};

/// Lets frames arrive at a PFE at their times, and waits until the PFE is idle. After the last
/// packet no timer thread starts, as in run_on_live().
/// @param next       Returns an optional TimedBytes, in order of time; none at the end.
/// @param arrive     Called at each packet's time, just before it arrives.
/// @param is_stopped Called before each event. Once it returns true, no timer thread starts.
template <class App, class Next, class Arrive, class Stopped>
void feed_pfe(EventCore& core, engine::Pfe<App>& pfe, Next&& next, Arrive&& arrive,
              Stopped&& is_stopped) {
  const auto is_idle = [&pfe] { return pfe.is_idle(); };
  const auto run_until = [&](Instant at) {
    if (core.run_until(at, is_stopped)) pfe.rest_timers(Instant::never());
    core.run_until(at);
  };
  Instant last_at;
  while (const std::optional<TimedBytes> packet = next()) {
    if (packet->at > last_at + kGapMax) {
      run_until(last_at + kGapMax);
      pfe.rest_timers(packet->at);
    }
    last_at = packet->at;
    run_until(packet->at);
    arrive();
    pfe.arrive(packet->bytes, static_cast<uint32_t>(packet->bytes.size()), Endpoint(), /*train=*/1,
               engine::PacketLayer::kFrame);
  }
  pfe.rest_timers(Instant::never());  // Timer threads that overlap would never let it be idle.
  core.run_until(Instant::never(), is_idle);
  pfe.stop();
  core.run_until(Instant::never(), is_idle);
}
template <class App, class Next>
void feed_pfe(EventCore& core, engine::Pfe<App>& pfe, Next&& next) {
  feed_pfe(
      core, pfe, next, [] {}, [] { return false; });
}

/// Feeds the whole capture to `app` and waits until the PFE is idle.
template <class App>
ModelReport run_on_model(App app, const engine::Parameters& parameters,
                         memory::SharedMemory& memory, CaptureFeed& feed, CaptureOutput& output) {
  EventCore core;
  // As many packets can be on their way out as wait for a thread.
  const uint32_t sides = parameters.models_egress() ? 2 : 1;
  ModelOutput sink(output, sides * parameters.packet_buffer_packets);
  engine::Pfe<App> pfe(core, parameters, memory, std::move(app), sink);
  const FedPacket* packet = nullptr;
  const auto next = [&]() -> std::optional<TimedBytes> {
    // The packets of an output that has failed are lost.
    packet = output.problem() ? nullptr : feed.next();
    if (packet == nullptr) return std::nullopt;
    return TimedBytes{packet->at, packet->bytes};
  };
  const auto arrive = [&] {
    if (pfe.packets_inside() == 0) sink.clear();
    sink.add(*packet);
  };
  feed_pfe(core, pfe, next, arrive, [&feed] { return feed.is_stopped(); });
  return {parameters, pfe.report(), engine::accounting_of(pfe)};
}

}  // namespace tributary::programs
