// SPDX-License-Identifier: Apache-2.0
/// @file
/// A modelled Tofino with SwitchML's program on the virtual network.
///
/// Model:   Datagrams become the frames that the switch parses, at the front-panel port of their
///          worker: rank i has port i x 4 of pipe 0, or port i where 25 Gbit/s are enough. A frame
///          that leaves the chip becomes a datagram at the instant at which its first bit leaves.
///          Everything between is the pipeline's (tofino/pipeline/switch.h): passes, recirculation,
///          loss in a full buffer. With time-outs the packet generator looks at every slot once in
///          trio_ml::JobConfig::timeout, as a Trio's timer threads look at every block.
/// Trains:  A train is its last packet, as in SwitchConfig::train; results leave packet by packet.
/// Elided:  Where no gradient exists (AggregatorSpec::values) the pipeline runs in its elided form.
///          Else a datagram without its payload counts as zeros.
/// Threads: One.
/// Errors:  create() refuses what the chip has no port, bit or slot for. Datagrams of strangers,
/// and
///          whatever the program drops, are counted (AggregatorResult::dropped, parts).
/// Tests:   tests/lab/backends/tofino_node_test.cc
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/model/meter.h"
#include "lab/backends/aggregator_node.h"
#include "tofino/switchml/control.h"

namespace tributary::lab {

class TofinoNode final : public AggregatorNode, private tofino::SwitchSink, private EventTarget {
 public:
  static Result<std::unique_ptr<TofinoNode>> create(net::Network& network,
                                                    const AggregatorSpec& spec);

  /// Loads the program anew and sets its session: every register is zero again. Setting a session
  /// alone, as the published controller does, leaves them as they are.
  [[nodiscard]] Result<void> load_program();

  [[nodiscard]] tofino::SwitchmlSwitch& device() { return *device_; }
  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  bool set_trace(TraceSink& sink) override;
  [[nodiscard]] NodeSnapshot snapshot(const SnapshotWish& wish) override;

 private:
  TofinoNode(net::Network& network, const AggregatorSpec& spec);

  void aggregate(net::PacketRef packet) override;
  void send(Instant at, uint32_t port, tofino::PacketView frame) override;
  void on_event(uint64_t argument) override;
  /// The rank that a datagram comes from; none for a stranger.
  [[nodiscard]] std::optional<uint32_t> rank_of(const Endpoint& source) const;
  void note_arrival(std::span<const std::byte> payload);
  void note_result(Instant at, std::span<const std::byte> payload);
  void wake();

  std::vector<uint32_t> worker_ips_;  ///< By rank.
  std::unique_ptr<tofino::SwitchmlSwitch> device_;
  uint32_t port_stride_ = 0;
  std::vector<std::byte> frame_;  ///< The one that arrives.
  Instant wake_at_ = Instant::never();
  std::vector<Instant> arrived_at_;  ///< Shape [2 x pool]: a slot's last contribution.
  engine::LatencyHistogram latency_;
  uint64_t strangers_ = 0;
};

/// As check_switchml(); refuses also more workers than ports, ports faster than the chip's, and a
/// time-out that is shorter than the generator's sweep.
[[nodiscard]] std::optional<Refusal> check_tofino(const Scenario& scenario,
                                                  const SwitchmlDesign& design);

}  // namespace tributary::lab
