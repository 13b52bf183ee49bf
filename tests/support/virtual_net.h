// SPDX-License-Identifier: Apache-2.0
/// @file
/// A star of workers and live aggregators on the virtual network, for tests of the protocol: nodes
/// are added one by one, and a test says what happens to them. Whole campaigns are lab/faults/.
///
/// Model:   Every node has a cable to one forwarder. Faults are on the way to it, so a datagram
///          meets them once; the way from it only takes time.
/// Units:   Virtual time since the network's making; rates are probabilities of each datagram.
/// Threads: One. Nothing sleeps and no clock is read.
/// Errors:  What a test asks wrongly (unknown node, a job that is not allowed) stops it.
/// Tests:   used by tests/host/virtual_faults_test.cc, plain_client_test.cc,
///          loss_throughput_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lab/backends/live_node.h"
#include "lab/cluster/worker_node.h"
#include "net/forwarder.h"
#include "net/network.h"

namespace tributary::testing {

class VirtualNet final : private EventTarget {
 public:
  /// Links lose nothing and keep the order.
  static constexpr net::LinkFaults kCalm{.jitter = microseconds(10)};
  using Receiver = std::function<void(std::span<const std::byte> payload, const Endpoint& from)>;

  explicit VirtualNet(uint64_t seed, const net::LinkFaults& faults = kCalm,
                      Duration delay = microseconds(20));
  ~VirtualNet();
  VirtualNet(const VirtualNet&) = delete;
  VirtualNet& operator=(const VirtualNet&) = delete;

  // --- Nodes. Each returns its number, which counts from 0 for its kind. ------------------------

  uint32_t add_aggregator(const trio_ml::JobConfig& job, const Endpoint& at);
  /// A worker that begins to join now. Several may stand at one address one after another; the
  /// youngest has its port.
  uint32_t add_worker(const host::CommunicatorConfig& config, const Endpoint& at);
  /// Anything else with an address; `receiver` is called for each datagram.
  void add_receiver(const Endpoint& at, Receiver receiver);

  // --- What happens to them ----------------------------------------------------------------------

  void submit(uint32_t worker, host::Transfer& transfer) { workers_.at(worker)->submit(transfer); }
  void leave(uint32_t worker) { workers_.at(worker)->leave(); }
  void pause(uint32_t worker, Duration length) { workers_.at(worker)->pause(length); }
  void crash(uint32_t worker) { workers_.at(worker)->crash(); }
  /// The aggregator's process is gone; what arrives is lost.
  void stop_aggregator(uint32_t aggregator) { aggregators_.at(aggregator)->stop(); }
  /// A new process with empty memory and other session numbers at the same address.
  void restart_aggregator(uint32_t aggregator) { aggregators_.at(aggregator)->start(); }
  /// A datagram from one of the receivers.
  void send(const Endpoint& from, const Endpoint& to, std::span<const std::byte> payload);
  /// Calls `action` at that time, after everything else of the same instant.
  void at(Instant time, std::function<void()> action);

  // --- Time --------------------------------------------------------------------------------------

  [[nodiscard]] Instant now() const { return core_.now(); }
  /// Runs until `until` holds, looked at after each event, or virtual time has reached `limit`.
  /// @return whether it holds.
  bool run_until(Instant limit, const std::function<bool()>& until);
  void run_for(Duration length) { core_.run_until(now() + length); }

  // --- What one may look at ----------------------------------------------------------------------

  /// @pre It has not crashed.
  [[nodiscard]] const host::TensorProtocol& worker(uint32_t index) const {
    return workers_.at(index)->protocol();
  }
  [[nodiscard]] uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  /// The job of an aggregator that runs.
  [[nodiscard]] trio_ml::Job& job(uint32_t aggregator);
  [[nodiscard]] uint64_t count(uint32_t aggregator, trio_ml::Outcome outcome) const;
  /// An address for node `index` of some kind (`kind` below 256).
  [[nodiscard]] static Endpoint address(uint32_t kind, uint32_t index);

 private:
  class ReceiverNode;

  void on_event(uint64_t argument) override;
  /// A cable between a node's port 0 and the forwarder.
  void attach(net::NodeId node, const Endpoint& at);
  void route_everybody_to(const Endpoint& at);

  const net::LinkFaults faults_;
  const Duration delay_;
  EventCore core_;
  net::Network network_;
  net::Forwarder forwarder_;
  std::vector<Endpoint> addresses_;  ///< Of all nodes.
  uint32_t ports_used_ = 0;
  Prng seeds_;
  std::vector<uint8_t> job_ids_;  ///< Of each aggregator.
  std::vector<std::unique_ptr<lab::LiveNode>> aggregators_;
  std::vector<std::unique_ptr<lab::WorkerNode>> workers_;
  std::vector<std::unique_ptr<ReceiverNode>> receivers_;
  std::vector<std::function<void()>> actions_;  ///< By the event's argument.
};

}  // namespace tributary::testing
