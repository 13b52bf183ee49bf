// SPDX-License-Identifier: Apache-2.0
/// @file
/// Flow telemetry on the live machine, and the messages that it sends, for tests.
///
/// Tests: tests/apps/telemetry/telemetry_test.cc, tests/apps/telemetry/expiry_test.cc
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/telemetry/app.h"
#include "engine/live/live_machine.h"
#include "engine/packet.h"
#include "engine/port.h"
#include "tests/apps/counts.h"
#include "tests/apps/telemetry/frames.h"

namespace tributary::telemetry {

inline const Endpoint kCollector = Endpoint::ipv4(0x7f000001, wire::kIpfixPort);
inline constexpr int64_t kEpochNs = 1'600'000'000'000'000'000;

/// Returns a small configuration: idle after 100 ms, active for 1 s, 4 timer threads.
inline TelemetryConfig small_config() {
  return {.flows_max = 64,
          .hash_seed = 5,
          .inactive_timeout = milliseconds(100),
          .active_timeout = seconds(1),
          .timer_threads = 4,
          .collector = kCollector,
          .epoch_ns = kEpochNs};
}

inline Instant at_ms(int64_t count) { return Instant(milliseconds(count)); }

inline memory::SharedMemory small_memory() {
  return *memory::SharedMemory::create(
      {.sram_size_bytes = 1 << 16, .dram_size_bytes = uint64_t{1} << 24});
}

/// Decodes messages, and checks that their sequence numbers count the records.
class Collector {
 public:
  void receive(std::span<const std::byte> message) {
    auto decoded = wire::decode_ipfix(message);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().text;
    EXPECT_GT(decoded->flows.size(), 0U);
    flows_.insert(flows_.end(), decoded->flows.begin(), decoded->flows.end());
    messages_.push_back({std::move(*decoded), message.size()});
  }
  /// Checks the sequence numbers of all messages, which may have come in any order.
  void check_sequence() const {
    std::map<uint32_t, size_t> records;
    for (const Message& message : messages_) {
      EXPECT_TRUE(records.emplace(message.decoded.sequence, message.decoded.flows.size()).second);
    }
    uint32_t next = 0;
    for (const auto& [sequence, count] : records) {
      EXPECT_EQ(sequence, next);
      next += static_cast<uint32_t>(count);
    }
  }
  [[nodiscard]] std::vector<wire::IpfixFlow> take_flows() { return std::exchange(flows_, {}); }

  struct Message {
    wire::IpfixMessage decoded;
    size_t bytes;
  };
  [[nodiscard]] const std::vector<Message>& messages() const { return messages_; }

 private:
  std::vector<wire::IpfixFlow> flows_;
  std::vector<Message> messages_;
};

/// A port that keeps the forwarded frames and gives messages to a collector.
class TelemetryQueue final : public engine::PortQueue {
 public:
  uint32_t receive(std::span<engine::Packet>) override { return 0; }
  void transmit(std::span<const engine::TxPacket> packets) override {
    for (const engine::TxPacket& packet : packets) {
      const std::span<const std::byte> bytes(packet.data, packet.size);
      if (packet.destination == kCollector) {
        EXPECT_EQ(packet.layer, engine::PacketLayer::kUdpPayload);
        collector.receive(bytes);
      } else {
        forwarded.emplace_back(bytes.begin(), bytes.end());
      }
    }
  }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

  std::vector<Bytes> forwarded;
  Collector collector;
};

/// The program on the live machine.
class LiveBed {
 public:
  explicit LiveBed(const TelemetryConfig& config)
      : memory_(small_memory()), state_(*TelemetryState::create(memory_, config, Instant())) {}

  void packet(const Bytes& frame, Instant at,
              engine::PacketLayer layer = engine::PacketLayer::kFrame) {
    Bytes copy = frame;
    engine::Packet packet{.data = copy.data(),
                          .size = static_cast<uint32_t>(copy.size()),
                          .layer = layer,
                          .source = {}};
    run(at, [&] {
      m_.begin_packet(packet);
      app_.process(m_);
    });
  }
  void timers(Instant now) {
    run(now, [&] { app_.run_timers(m_, now); });
  }
  /// Runs every timer that is due until `end`, each at its own time.
  void timers_until(Instant end) {
    while (app_.next_due() <= end) timers(app_.next_due());
  }
  void stop(Instant now) {
    run(now, [&] { app_.stop(m_); });
  }

  [[nodiscard]] TelemetryState& state() { return *state_; }
  [[nodiscard]] App& app() { return app_; }
  [[nodiscard]] std::vector<wire::IpfixFlow> take_flows() { return queue_.collector.take_flows(); }
  [[nodiscard]] const Collector& collector() const { return queue_.collector; }
  [[nodiscard]] const std::vector<Bytes>& forwarded() const { return queue_.forwarded; }
  [[nodiscard]] apps::Counts counts() { return apps::counts_of<Outcome>(state_->counters()); }
  [[nodiscard]] const memory::PacketByteCounter& counter(Outcome outcome) {
    return state_->counters()[static_cast<uint32_t>(outcome)];
  }

 private:
  template <class F>
  void run(Instant now, F&& body) {
    m_.begin_burst(now);
    app_.begin_burst();
    body();
    m_.flush();
  }

  memory::SharedMemory memory_;
  std::unique_ptr<TelemetryState> state_;
  TelemetryQueue queue_;
  engine::LiveMachine m_{queue_};
  App app_{*state_};
};

/// Names a flow in a test's model: version, addresses, ports, protocol, tags.
inline std::string name_of(const wire::IpfixFlow& flow) {
  const auto address = [](const std::array<uint8_t, 16>& bytes) {
    Endpoint endpoint;
    endpoint.address = bytes;
    return endpoint.to_string();
  };
  return (flow.is_ipv6 ? "6 " : "4 ") + address(flow.source) + std::to_string(flow.source_port) +
         " " + address(flow.destination) + std::to_string(flow.destination_port) + " " +
         std::to_string(flow.protocol) + " " + std::to_string(flow.vlan) + "." +
         std::to_string(flow.customer_vlan);
}

/// Names the flow of a frame as its IPFIX flow is named.
inline std::string name_of(const FrameSpec& spec) {
  const auto address = [&](uint32_t low) {
    std::array<uint8_t, 16> bytes{};
    if (!spec.is_ipv6) return Endpoint::ipv4(low, 0).address;
    bytes = {0x20, 0x01, 0x0d, 0xb8};
    for (uint32_t i = 0; i < 4; i++) bytes[12 + i] = static_cast<uint8_t>(low >> (24 - 8 * i));
    return bytes;
  };
  return name_of(wire::IpfixFlow{.source = address(spec.source),
                                 .destination = address(spec.destination),
                                 .is_ipv6 = spec.is_ipv6,
                                 .protocol = static_cast<uint8_t>(spec.protocol),
                                 .source_port = static_cast<uint16_t>(spec.source_port),
                                 .destination_port = static_cast<uint16_t>(spec.destination_port),
                                 .vlan = static_cast<uint16_t>(spec.vlan),
                                 .customer_vlan = static_cast<uint16_t>(spec.customer_vlan)});
}

/// Everything that the records of a flow, or its packets, add up to.
struct FlowSum {
  uint64_t packets = 0;
  uint64_t octets = 0;
  int64_t start_ns = INT64_MAX;
  int64_t end_ns = 0;
  uint32_t tcp_flags = 0;

  void add(const FlowSum& other) {
    packets += other.packets;
    octets += other.octets;
    start_ns = std::min(start_ns, other.start_ns);
    end_ns = std::max(end_ns, other.end_ns);
    tcp_flags |= other.tcp_flags;
  }
  friend bool operator==(const FlowSum&, const FlowSum&) = default;
  friend void PrintTo(const FlowSum& sum, std::ostream* out) {
    *out << sum.packets << " packets, " << sum.octets << " octets, " << sum.start_ns - kEpochNs
         << " to " << sum.end_ns - kEpochNs << " ns, flags " << sum.tcp_flags;
  }
};
using FlowSums = std::map<std::string, FlowSum>;

/// Returns one packet's share in the sum of its flow.
inline FlowSum sum_of_packet(const FrameSpec& spec, Instant at) {
  const int64_t ns = kEpochNs + in_nanoseconds(at.since_start());
  return {.packets = 1,
          .octets = ip_packet(spec).size(),
          .start_ns = ns,
          .end_ns = ns,
          .tcp_flags = spec.protocol == wire::kIpProtocolTcp ? spec.tcp_flags : 0};
}

/// Adds records up by flow.
inline void add_records(std::span<const wire::IpfixFlow> flows, FlowSums& sums) {
  for (const wire::IpfixFlow& flow : flows) {
    EXPECT_GT(flow.packets, 0U);
    EXPECT_LE(flow.start_ns, flow.end_ns);
    sums[name_of(flow)].add({.packets = flow.packets,
                             .octets = flow.octets,
                             .start_ns = flow.start_ns,
                             .end_ns = flow.end_ns,
                             .tcp_flags = flow.tcp_flags});
  }
}

}  // namespace tributary::telemetry
