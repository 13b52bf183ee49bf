// SPDX-License-Identifier: Apache-2.0
/// @file
/// A parameter server: a process on a host that adds all workers' packets and sends each worker the
/// sum. It keeps no model (SwitchML paper §6.1; BytePS's summation service, BytePS paper §3.2).
///
/// Model:   The waiting switch's program with a host's costs: rounds of up to kBurst packets from a
///          bounded receive buffer. Each packet in or out takes the host's packet cost, one after
///          the other, as for a worker. A host has no multicast: a sum leaves once for each worker.
/// Units:   AggregatorResult's part "CPU in use" is a share of the run.
/// Threads: One.
/// Errors:  Counts packets that overflow the receive buffer as dropped.
/// Memory:  The receive buffer's packets, at most HostSettings::receive_buffer_bytes.
/// Tests:   tests/lab/peers/peers_run_test.cc, tests/lab/run_test.cc
#pragma once

#include <deque>

#include "lab/backends/waiting_switch.h"

namespace tributary::lab {

/// The part that counts packets for which the receive buffer had no room.
inline constexpr const char* kReceiveBufferFull = "dropped: receive buffer full";

class ParameterServer final : public WaitingSwitch {
 public:
  ParameterServer(net::Network& network, const AggregatorSpec& spec);

  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  [[nodiscard]] uint64_t receive_overflows() const { return receive_overflows_; }

 private:
  static constexpr uint32_t kBurst = HostSettings::kBurst;

  /// Starts the next round at its event.
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
  /// Charges one packet, after the work in progress.
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
