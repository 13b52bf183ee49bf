// SPDX-License-Identifier: Apache-2.0
/// @file
/// A switch that aggregates at the rate of its ports and waits for all workers: in-network
/// aggregation without limits of computation and without straggler mitigation.
///
/// Model:   Each datagram leaves kPipelineLatency after its arrival, at any load. A place of the
///          window has two slots that take turns, as SwitchML's two pools do (SwitchML paper §4.5),
///          so one kept result repairs any loss. The switch adds payload where it exists. It speaks
///          the session protocol of docs/aggregation-protocol.md, with trio_ml::Session.
/// Threads: One.
/// Errors:  Counts and drops datagrams that are malformed, foreign or of another session.
/// Tests:   tests/lab/backends/waiting_switch_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "apps/trio_ml/records.h"
#include "apps/trio_ml/session.h"
#include "lab/backends/aggregator_node.h"

namespace tributary::lab {

class WaitingSwitch : public AggregatorNode, private EventTarget {
 public:
  /// From a datagram's arrival to its result's departure. Assumed: SwitchML-256 passes four
  /// pipelines of a Tofino (Trio paper §6.1). Each pass takes about 520 ns, which SwitchML's
  /// authors measured for an additional one.
  static constexpr Duration kPipelineLatency = nanoseconds(4 * 520);

  WaitingSwitch(net::Network& network, const AggregatorSpec& spec,
                Duration latency = kPipelineLatency);

  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  [[nodiscard]] uint64_t invalid() const { return invalid_; }

 protected:
  void aggregate(net::PacketRef packet) override;
  /// Called for each datagram that leaves, so that a derived class can charge for it.
  virtual void note_sent() {}
  [[nodiscard]] uint64_t packets() const { return packets_; }

 private:
  struct Slot {
    bool used = false;
    bool complete = false;
    uint32_t block_id = 0;
    uint32_t received = 0;
    trio_ml::SourceMask mask{};
    wire::Message result;  ///< Head of the result.
    bool elided = true;
    std::vector<int32_t> lanes;  ///< Sums; empty if elided.
  };

  void on_event(uint64_t slot_index) override;

  void serve_join(const wire::Message& message, const Endpoint& from);
  void ask_to_confirm(const wire::Message& pending);
  void serve_contribution(const wire::Message& message, const net::Packet& packet);
  void serve_probe(const wire::Message& message, const Endpoint& from);
  void begin(Slot& slot, const wire::Message& message, bool elided);
  void add(Slot& slot, const wire::Message& message, const net::Packet& packet);
  void send_control(const wire::Message& message, const Endpoint& to);
  void send_result(const Slot& slot, const Endpoint& to);
  [[nodiscard]] Slot& slot_of(uint32_t block_id);
  [[nodiscard]] wire::Message control(const wire::Message& about, wire::MessageType type) const;

  const Duration latency_;
  trio_ml::Session session_;
  std::vector<Slot> slots_;         ///< Shape [2 x block_cnt_max].
  std::vector<Endpoint> to_all_;    ///< Every source, or the group.
  std::vector<std::byte> message_;  ///< The message being written.
  uint64_t packets_ = 0;
  uint64_t invalid_ = 0;
};

}  // namespace tributary::lab
