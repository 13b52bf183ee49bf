// SPDX-License-Identifier: Apache-2.0
/// @file
/// A parameter server: a process on a host that adds what all workers send it, packet by packet,
/// and sends each of them the sum.
///
/// Model:   The waiting switch's program (lab/backends/waiting_switch.h) with a host's costs: it
///          works in rounds of up to kBurst packets from a bounded receive buffer; each packet in
///          or out takes the host's packet cost, one after the other, as a worker's do
///          (lab/cluster/worker_node.h). A host has no multicast: a sum leaves once for each
///          worker. As the comparison of SwitchML's authors (SwitchML paper §6.1) and BytePS's
///          summation service (BytePS paper §3.2): it adds and keeps no model.
/// Units:   AggregatorResult's part "CPU in use" is a share of the run.
/// Threads: One.
/// Errors:  What does not fit into the receive buffer is counted as dropped, beside what the
///          program drops.
/// Memory:  The receive buffer's packets, at most HostSettings::receive_buffer_bytes.
/// Tests:   tests/lab/peers/peers_run_test.cc, tests/lab/run_test.cc
#pragma once

#include <deque>

#include "lab/backends/waiting_switch.h"

namespace tributary::lab {

class ParameterServer final : public WaitingSwitch {
 public:
  ParameterServer(net::Network& network, const AggregatorSpec& spec);

  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  [[nodiscard]] uint64_t receive_overflows() const { return receive_overflows_; }

 private:
  static constexpr uint32_t kBurst = HostSettings::kBurst;

  /// The next round.
  class Cpu final : public tributary::EventTarget {
   public:
    explicit Cpu(ParameterServer& server) : server_(server) {}
    void on_event(uint64_t) override { server_.run_round(); }

   private:
    ParameterServer& server_;
  };

  void aggregate(net::PacketRef packet) override;
  void note_sent() override { work(); }
  void run_round();
  void schedule_round();
  /// One packet's worth, after what is being done.
  void work();

  Cpu cpu_;
  std::deque<net::PacketRef> received_;
  uint64_t received_bytes_ = 0;
  uint64_t receive_overflows_ = 0;
  bool round_pending_ = false;
  Instant busy_until_;
  Duration worked_;
};

}  // namespace tributary::lab
