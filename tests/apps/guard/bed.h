// SPDX-License-Identifier: Apache-2.0
/// @file
/// A guard on a bench: the live machine in virtual time, frames in and the verdict out.
///
/// Threads: One.
/// Memory:  Allocates; for tests only.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <string>

#include "apps/guard/app.h"
#include "engine/live/live_machine.h"
#include "engine/port.h"
#include "tests/apps/counts.h"
#include "traffic/frame_builder.h"
#include "wire/headers.h"

namespace tributary::guard {

/// A port that drops everything sent to it.
class ForgettingQueue final : public engine::PortQueue {
 public:
  uint32_t receive(std::span<engine::Packet>) override { return 0; }
  void transmit(std::span<const engine::TxPacket>) override {}
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }
};

/// Returns the settings that tests use: SCFD's times and bandwidths, small tables.
inline GuardConfig small_config() {
  GuardConfig config;
  config.destinations_max = 1'024;
  config.suspects_max = 4'096;
  config.handshakes_log2 = 16;
  config.known_bits_log2 = 20;
  config.hash_seed = 1;
  return config;
}

inline memory::SharedMemory bed_memory() {
  return *memory::SharedMemory::create(
      {.sram_size_bytes = 65'536, .dram_size_bytes = uint64_t{64} << 20});
}

/// A frame in a buffer of its own.
struct BuiltFrame {
  std::array<std::byte, traffic::kFrameBytesMax> bytes;
  uint32_t size = 0;
  [[nodiscard]] std::span<const std::byte> span() const { return std::span(bytes).first(size); }
};

/// Returns a TCP frame, such as a SYN.
inline BuiltFrame tcp_frame(const char* source, const char* destination, uint32_t flags) {
  traffic::FrameContents contents;
  contents.source = *Endpoint::parse(source);
  contents.destination = *Endpoint::parse(destination);
  contents.tcp_flags = flags;
  BuiltFrame frame;
  frame.size = traffic::build_frame(contents, frame.bytes);
  return frame;
}
inline BuiltFrame udp_frame(const char* source, const char* destination) {
  traffic::FrameContents contents;
  contents.source = *Endpoint::parse(source);
  contents.destination = *Endpoint::parse(destination);
  contents.transport = traffic::Transport::kUdp;
  BuiltFrame frame;
  frame.size = traffic::build_frame(contents, frame.bytes);
  return frame;
}

class Bed {
 public:
  explicit Bed(const GuardConfig& config = small_config())
      : state_(*GuardState::create(memory_, config, Instant())), app_(*state_) {}

  /// Runs the timers that are due by `now`.
  void advance(Instant now) {
    while (app_.next_due() <= now) {
      const Instant due = app_.next_due();
      m_.begin_burst(due);
      app_.run_timers(m_, due);
    }
    now_ = now;
  }
  /// Runs the timers that are due, then the packet. @return whether it was forwarded.
  bool send(Instant at, std::span<const std::byte> frame,
            engine::PacketLayer layer = engine::PacketLayer::kFrame) {
    advance(at);
    m_.begin_burst(at);
    const uint64_t before = m_.counters().forwarded;
    // The machine takes a writable packet, and the guard only reads it.
    engine::Packet packet{.data = const_cast<std::byte*>(frame.data()),
                          .size = static_cast<uint32_t>(frame.size()),
                          .layer = layer,
                          .source = {}};
    m_.begin_packet(packet);
    app_.process(m_);
    m_.flush();
    return m_.counters().forwarded > before;
  }
  bool send(Instant at, const BuiltFrame& frame) { return send(at, frame.span()); }
  /// Sends a frame `pps` times a second from `begin` to `end`. @return packets forwarded.
  uint64_t send_steadily(Instant begin, Instant end, uint32_t pps, const BuiltFrame& frame) {
    uint64_t forwarded = 0;
    const Duration gap = seconds(1) / pps;
    for (Instant at = begin; at < end; at = at + gap) forwarded += send(at, frame) ? 1 : 0;
    return forwarded;
  }

  [[nodiscard]] uint64_t count(Outcome outcome) const {
    return state_->counters()[static_cast<size_t>(outcome)].packets;
  }
  [[nodiscard]] apps::Counts counts() const { return apps::counts_of<Outcome>(state_->counters()); }
  [[nodiscard]] GuardState& state() { return *state_; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const memory::SharedMemory& memory() const { return memory_; }

 private:
  memory::SharedMemory memory_ = bed_memory();
  std::unique_ptr<GuardState> state_;
  App app_;
  ForgettingQueue queue_;
  engine::LiveMachine m_{queue_};
  Instant now_;
};

/// Returns the point `after_start` after the start.
inline Instant at(Duration after_start) { return Instant() + after_start; }

/// The server of most tests, and segments to it.
inline constexpr const char* kServer = "198.18.0.1:443";

inline BuiltFrame syn_from(const std::string& host) {
  return tcp_frame((host + ":1000").c_str(), kServer, wire::kTcpSyn);
}
inline BuiltFrame ack_from(const std::string& host) {
  return tcp_frame((host + ":1000").c_str(), kServer, wire::kTcpAck);
}

/// Bandwidths for SYNs of 10, 20 and 40 pps, so that few packets are a flood.
inline GuardConfig tight() {
  GuardConfig config = small_config();
  for (size_t level = 0; level < kLevelCount; level++) {
    for (uint32_t& pps : config.levels[level].pps) pps = 10U << level;
  }
  return config;
}

/// Sends SYNs from `hosts` addresses of one /24 in turn, `pps` in all.
inline uint64_t flood(Bed& bed, Instant begin, Instant end, uint32_t pps, uint32_t hosts) {
  uint64_t forwarded = 0;
  uint32_t i = 0;
  for (Instant now = begin; now < end; now = now + seconds(1) / pps) {
    const std::string host = "192.0.2." + std::to_string(1 + i++ % hosts);
    forwarded += bed.send(now, syn_from(host)) ? 1 : 0;
  }
  return forwarded;
}

}  // namespace tributary::guard
