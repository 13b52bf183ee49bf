// SPDX-License-Identifier: Apache-2.0
/// @file
/// A modelled Tofino with SwitchML's program on the virtual network.
///
/// Model:   A datagram enters as a frame at its worker's front-panel port: rank i has port i x 4 of
///          pipe 0, or port i at 25 Gbit/s or less. A frame becomes a datagram when its first bit
///          leaves the chip. tofino/pipeline/switch.h models passes, recirculation and buffer loss.
///          With timeouts the packet generator visits each slot once in JobConfig::timeout.
/// Elided:  Without gradients (AggregatorSpec::values) the pipeline runs in its elided form. With
///          them, a datagram without payload counts as zeros.
/// Errors:  create() refuses jobs beyond the chip's ports, bits and slots. Datagrams of strangers
///          and drops of the program are counted (AggregatorResult::dropped, parts).
/// Tests:   tests/lab/backends/tofino_node_test.cc
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/model/meter.h"
#include "lab/backends/aggregator_node.h"
#include "tofino/switchml/control.h"

namespace tributary::lab {

struct BackendKind;

class TofinoNode final : public AggregatorNode, private tofino::SwitchSink, private EventTarget {
 public:
  static Result<std::unique_ptr<TofinoNode>> create(net::Network& network,
                                                    const AggregatorSpec& spec);

  /// Loads the program and sets its session; every register is zero. To set a session alone, as the
  /// published controller does, leaves the registers unchanged.
  [[nodiscard]] Result<void> load_program();

  [[nodiscard]] tofino::SwitchmlSwitch& device() { return *device_; }
  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  bool set_trace(TraceSink& sink) override;
  [[nodiscard]] NodeSnapshot snapshot(const SnapshotRequest& request) override;

 private:
  TofinoNode(net::Network& network, const AggregatorSpec& spec);

  void aggregate(net::PacketRef packet) override;
  void send(Instant at, uint32_t port, tofino::PacketView frame) override;
  void on_event(uint64_t argument) override;
  /// Returns the rank of a datagram's sender; none for a stranger.
  [[nodiscard]] std::optional<uint32_t> rank_of(const Endpoint& source) const;
  void note_arrival(std::span<const std::byte> payload);
  void note_result(Instant at, std::span<const std::byte> payload);
  void wake();

  std::vector<uint32_t> worker_ips_;  ///< By rank.
  std::unique_ptr<tofino::SwitchmlSwitch> device_;
  uint32_t port_stride_ = 0;
  std::vector<std::byte> frame_;  ///< The arriving frame.
  Instant wake_at_ = Instant::never();
  std::vector<Instant> arrived_at_;  ///< Shape [2 x pool]: a slot's last contribution.
  engine::LatencyHistogram latency_;
  uint64_t unknown_sources_ = 0;
};

/// Calls check_switchml(). Also refuses more workers than ports, ports faster than the chip's, and
/// a timeout shorter than the generator's sweep.
[[nodiscard]] std::optional<Refusal> check_tofino(const Scenario& scenario,
                                                  const BackendKind& backend);

}  // namespace tributary::lab
