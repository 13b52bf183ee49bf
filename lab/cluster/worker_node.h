// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's host on the virtual network: the live protocol state machine (host/tensor_protocol.h)
/// with a CPU that takes time, a NIC that sends at its rate, and a bounded receive buffer.
///
/// Model:   The host works in rounds, as a DPDK loop does: up to kBurst packets from the receive
///          buffer, then up to kBurst new ones into the NIC's ring, then it is busy for
///          packet_cost times their number. A round's packets count from its beginning. The ring
///          holds kRingPackets; the host sends again when half of it is free.
///          Datagrams from others than the server cost the same. They are counted and dropped.
/// Threads: One.
/// Errors:  Counts packets that overflow the receive buffer; they are lost.
/// Tests:   tests/lab/cluster/worker_node_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/meter.h"
#include "host/tensor_protocol.h"
#include "host/trio_ml/congestion_window.h"
#include "host/worker_config.h"
#include "lab/scenario.h"
#include "net/network.h"

namespace tributary::lab {

struct WorkerNodeConfig {
  std::string name;
  Endpoint address;
  host::CommunicatorConfig communicator;
  /// Makes the protocol of a process; empty: Trio-ML's, with `communicator`.
  host::ProtocolFactory protocol;
  uint64_t nic_bits_per_s = 100'000'000'000;  ///< The rate of the cable at port 0.
  Duration packet_cost = nanoseconds(100);    ///< Time per packet, in or out; see HostSettings.
  uint64_t receive_buffer_bytes = uint64_t{64} << 20;
  uint32_t train = 1;  ///< Multiplies costs and bytes.
  /// Whether each process sends from the next UDP port, as with sockets; else from the same one.
  bool new_ports = false;
  /// Marked results and losses limit the packets in flight, unless this is kNone.
  host::CongestionControl congestion = host::CongestionControl::kNone;
  /// Records each block's time from its first contribution to its result. May be null.
  engine::LatencyHistogram* latency = nullptr;
};

class WorkerNode final : public net::Node, private EventTarget {
 public:
  /// Called after each round, to look at its transfers.
  class Observer {
   public:
    virtual void on_round() = 0;

   protected:
    ~Observer() = default;
  };

  /// Sees every datagram that its processes take.
  class Watch {
   public:
    /// @param accepted Whether the protocol accepted it as the aggregator's.
    virtual void on_taken(WorkerNode& worker, const net::Packet& packet, bool accepted) = 0;

   protected:
    ~Watch() = default;
  };

  /// @param seed Seed of the nonces of its processes.
  WorkerNode(net::Network& network, const WorkerNodeConfig& config, uint64_t seed);
  ~WorkerNode();

  /// @param observer Null for none.
  void set_observer(Observer* observer) { observer_ = observer; }
  /// @param watch Null for none.
  void set_watch(Watch* watch) { watch_ = watch; }

  // --- A process's life ---

  /// Starts a process with a new nonce, which joins the job.
  void start();
  /// Ends the process without a message. Datagrams to it are lost.
  void crash();
  /// Stops the process for a time. Datagrams wait in the receive buffer.
  void pause(Duration length);
  /// Moves the process's clock ahead. The clock is monotonic.
  void step_clock(Duration ahead);

  /// Tells the process that a peer's machine refuses packets to the peer's port (ICMP port
  /// unreachable).
  void refuse(const Endpoint& peer);

  /// @pre A process runs.
  void submit(host::Transfer& transfer);
  void leave();

  // --- State for tests and observers ---

  [[nodiscard]] bool runs() const { return protocol_ != nullptr; }
  /// @pre A process runs.
  [[nodiscard]] const host::TensorProtocol& protocol() const { return *protocol_; }
  [[nodiscard]] net::NodeId id() const { return id_; }
  [[nodiscard]] const WorkerNodeConfig& config() const { return config_; }
  [[nodiscard]] Instant paused_until() const { return paused_until_; }
  [[nodiscard]] uint64_t receive_overflows() const { return receive_overflows_; }
  [[nodiscard]] uint64_t foreign_packets() const { return foreign_packets_; }
  /// Returns the simulated packets that its protocol has got, duplicates included.
  [[nodiscard]] uint64_t taken_packets() const { return taken_packets_; }
  /// Returns the time for which its CPU has handled packets until now, over all processes.
  [[nodiscard]] Duration worked() const;

  void receive(uint32_t port, net::PacketRef packet) override;

 private:
  static constexpr uint32_t kBurst = HostSettings::kBurst;
  /// The NIC's transmit ring. Assumed: two bursts, so that the wire never waits for the host.
  static constexpr uint32_t kRingPackets = 64;

  void on_event(uint64_t argument) override;
  [[nodiscard]] Instant local_now() const { return network_.core().now() + clock_ahead_; }
  void schedule(Instant at);
  void run_round();
  [[nodiscard]] uint32_t take_received();
  /// @param blocked Set when the NIC's ring is full.
  [[nodiscard]] uint32_t send_some(bool& blocked);
  void take(const net::Packet& packet);
  void open_window();
  void control_congestion(bool is_result, bool marked);
  [[nodiscard]] Instant ring_free_at() const;
  [[nodiscard]] uint64_t ring_bytes() const;

  net::Network& network_;
  const WorkerNodeConfig config_;
  Prng nonces_;
  net::NodeId id_;
  std::unique_ptr<host::TensorProtocol> protocol_;
  Endpoint own_;  ///< The process's own address.
  Observer* observer_ = nullptr;
  Watch* watch_ = nullptr;
  std::deque<net::PacketRef> received_;
  uint64_t received_bytes_ = 0;
  std::vector<std::byte> packet_;       ///< The packet being written.
  Instant wake_at_ = Instant::never();  ///< The valid wake-up; others are stale.
  Instant busy_until_;
  Duration charged_;  ///< All work for packets, up to busy_until_.
  Instant paused_until_;
  Duration clock_ahead_;  ///< Lead of the protocol's clock over virtual time.
  uint64_t receive_overflows_ = 0;
  uint64_t foreign_packets_ = 0;
  uint64_t taken_packets_ = 0;
  std::optional<host::CongestionWindow> congestion_;
  uint64_t losses_seen_ = 0;  ///< Retransmissions that `congestion_` knows of.
};

}  // namespace tributary::lab
