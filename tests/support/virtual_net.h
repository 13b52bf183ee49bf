// SPDX-License-Identifier: Apache-2.0
/// @file
/// A star of workers and live aggregators on the virtual network, for tests of the protocol. A test
/// adds nodes and controls them one by one. Whole campaigns are in lab/faults/.
///
/// Model:   Every node has a cable to one forwarder. Only the direction to the forwarder has
///          faults, so each datagram meets them once; the other direction only takes time.
/// Units:   Virtual time since construction; rates are probabilities per datagram.
/// Threads: One. Nothing sleeps and no clock is read.
/// Errors:  A misuse by the test (unknown node, job not allowed) stops it.
/// Tests:   used by tests/host/trio_ml/virtual_faults_test.cc, loss_throughput_test.cc beside it,
///          and tests/lab/faults/plain_client_test.cc
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
  /// Links without loss and reordering.
  static constexpr net::LinkFaults kCalm{.jitter = microseconds(10)};
  using Receiver = std::function<void(std::span<const std::byte> payload, const Endpoint& from)>;

  explicit VirtualNet(uint64_t seed, const net::LinkFaults& faults = kCalm,
                      Duration delay = microseconds(20));
  ~VirtualNet();
  VirtualNet(const VirtualNet&) = delete;
  VirtualNet& operator=(const VirtualNet&) = delete;

  // --- Nodes. Each function returns the node's number, which counts from 0 for its kind.
  // ------------

  uint32_t add_aggregator(const trio_ml::JobConfig& job, const Endpoint& at);
  /// Adds a worker that begins to join at once. Several workers may use one address, one after
  /// another; the latest one has its port.
  uint32_t add_worker(const host::CommunicatorConfig& config, const Endpoint& at);
  /// Adds all workers of a job, at address(1, rank), with equal requests.
  void add_workers(const Endpoint& server, uint32_t world, uint32_t gradients, uint32_t window);
  /// Adds another node with an address; calls `receiver` for each datagram.
  void add_receiver(const Endpoint& at, Receiver receiver);

  // --- Actions on nodes
  // ------------------------------------------------------------------------------

  void submit(uint32_t worker, host::Transfer& transfer) { workers_.at(worker)->submit(transfer); }
  void leave(uint32_t worker) { workers_.at(worker)->leave(); }
  void pause(uint32_t worker, Duration length) { workers_.at(worker)->pause(length); }
  void crash(uint32_t worker) { workers_.at(worker)->crash(); }
  /// Ends the aggregator's process; datagrams that reach it are lost.
  void stop_aggregator(uint32_t aggregator) { aggregators_.at(aggregator)->stop(); }
  /// Starts a new process at the same address, with empty memory and other session numbers.
  void restart_aggregator(uint32_t aggregator) { aggregators_.at(aggregator)->start(); }
  /// Sends a datagram from one of the receivers.
  void send(const Endpoint& from, const Endpoint& to, std::span<const std::byte> payload);
  /// Calls `action` at `time`, after all other events of that instant.
  void at(Instant time, std::function<void()> action);

  // --- Time --------------------------------------------------------------------------------------

  [[nodiscard]] Instant now() const { return core_.now(); }
  /// Runs until `until` holds, which is checked after each event, or until virtual time reaches
  /// `limit`.
  /// @return whether it holds.
  bool run_until(Instant limit, const std::function<bool()>& until);
  void run_for(Duration length) { core_.run_until(now() + length); }

  // --- Inspection
  // ------------------------------------------------------------------------------------

  /// @pre The worker has not crashed.
  [[nodiscard]] const host::TensorProtocol& worker(uint32_t index) const {
    return workers_.at(index)->protocol();
  }
  [[nodiscard]] uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  /// Returns the job of a running aggregator.
  [[nodiscard]] trio_ml::Job& job(uint32_t aggregator);
  [[nodiscard]] uint64_t count(uint32_t aggregator, trio_ml::Outcome outcome) const;
  /// Returns an address for node `index` of a kind (`kind` below 256).
  [[nodiscard]] static Endpoint address(uint32_t kind, uint32_t index);

 private:
  class ReceiverNode;

  void on_event(uint64_t argument) override;
  /// Connects a node's port 0 to the forwarder.
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
  std::vector<uint8_t> job_ids_;  ///< Job id at each aggregator.
  std::vector<std::unique_ptr<lab::LiveNode>> aggregators_;
  std::vector<std::unique_ptr<lab::WorkerNode>> workers_;
  std::vector<std::unique_ptr<ReceiverNode>> receivers_;
  std::vector<std::function<void()>> actions_;  ///< Index is the event's argument.
};

}  // namespace tributary::testing
