// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run: builds the network of a scenario, lets one or several jobs train in it, and collects
/// the result.
///
/// Threads: One.
/// Errors:  create() refuses bad topologies and captures. run() names the worker that fails or
///          hangs.
/// Tests:   tests/lab/run_test.cc, tests/lab/bottleneck_run_test.cc, tests/lab/shared_run_test.cc
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/event_core.h"
#include "lab/backends/aggregator_node.h"
#include "lab/cluster/job_run.h"
#include "lab/run.h"
#include "lab/shared_scenario.h"
#include "net/network.h"
#include "net/pcap.h"
#include "net/topology.h"

namespace tributary::lab {

class Cluster {
 public:
  /// @param scenario          Passed check().
  /// @param typical_iteration The unit of straggler delays.
  /// @param exchange          May be null.
  static Result<std::unique_ptr<Cluster>> create(const Scenario& scenario,
                                                 Duration typical_iteration,
                                                 TensorExchange* exchange);
  /// @param scenario           Passed check().
  /// @param typical_iterations The unit of straggler delays of each job. Shape [scenario.jobs].
  static Result<std::unique_ptr<Cluster>> create(const SharedScenario& scenario,
                                                 std::span<const Duration> typical_iterations);
  ~Cluster();

  // Runs to the end. Call one of them, once. `observer` may be null.
  /// @pre There is one job.
  [[nodiscard]] Result<RunResult> run(RunObserver* observer = nullptr);
  [[nodiscard]] Result<SharedResult> run_shared(RunObserver* observer = nullptr);

 private:
  /// Packets that one machine, cable or host has lost.
  struct Loss {
    std::string text;         ///< "switch dropped 146181 packets: packet buffer full".
    bool by_program = false;  ///< An aggregator's program dropped them; nothing overflowed.
  };

  Cluster(const Scenario& network, std::vector<std::unique_ptr<JobRun>> jobs,
          uint64_t network_seed);

  static Result<std::unique_ptr<Cluster>> build(const Scenario& network,
                                                std::vector<std::unique_ptr<JobRun>> jobs,
                                                net::Topology topology, uint64_t network_seed);
  [[nodiscard]] Result<void> build(const net::Topology& topology);
  [[nodiscard]] Result<void> begin_captures();
  [[nodiscard]] Result<void> find_timeline();
  [[nodiscard]] Result<net::BuiltNode> make_node(const net::NodeSpec& spec);
  [[nodiscard]] Result<net::BuiltNode> make_aggregator(const net::NodeSpec& spec);
  /// Executes events until `done()`, up to `end`, or until the observer stops. @return done().
  template <class F>
  [[nodiscard]] bool advance(Instant end, F&& done);
  /// Executes events as advance() does, and calls the observer. A separate function, so that runs
  /// without an observer pay nothing.
  [[nodiscard]] bool advance_observed(Instant end, const std::function<bool()>& done);
  void begin_counting();
  [[nodiscard]] Result<void> step(JobRun& job);
  [[nodiscard]] Result<void> run_jobs();
  [[nodiscard]] Result<void> run_to_end(RunObserver* observer);
  /// Returns the losses of machines, cables and hosts, by place and reason.
  /// @param network The result of collect_network().
  [[nodiscard]] std::vector<Loss> losses(const RunResult& network) const;
  /// Returns warnings about trains: they are too long for a job's buckets, congestion control
  /// counts them, or buffers, queues or cables lost them. @param network As above.
  [[nodiscard]] std::vector<std::string> train_warnings(const RunResult& network) const;
  /// Returns a warning for each PFE that does not count the time of all requests.
  /// @param network As above.
  [[nodiscard]] std::vector<std::string> fidelity_warnings(const RunResult& network) const;
  /// Returns warnings about workers that dropped out and about a pause after the end of the run.
  [[nodiscard]] static std::vector<std::string> job_warnings(const JobRun& job,
                                                             const RunResult& run);
  /// Refuses a result that depends on the order of packets in a train: a PFE dropped packets and
  /// workers repaired the losses.
  [[nodiscard]] Result<void> check_faithful(const std::vector<AggregatorResult>& aggregators) const;
  void collect_network(RunResult& result) const;
  void collect_links(RunResult& result, Duration elapsed) const;
  [[nodiscard]] std::string bottleneck(const RunResult& result) const;

  const Scenario network_scenario_;
  EventCore core_;
  net::Network network_;  // Before the nodes: these return the packets that they hold.
  std::vector<std::unique_ptr<JobRun>> jobs_;
  const std::vector<AggregatorSpec> aggregator_specs_;  ///< Each node's, for all its jobs.

  net::BuiltNetwork built_;
  std::vector<std::unique_ptr<AggregatorNode>> aggregators_;
  std::vector<std::unique_ptr<net::Forwarder>> idle_switches_;  ///< Aggregators without a job.
  std::vector<std::unique_ptr<WorkerNode>> idle_hosts_;         ///< Hosts without a worker.
  std::deque<net::PcapWriter> captures_;
  std::optional<net::LinkId> timeline_link_;
  std::vector<uint64_t> timeline_;
  uint64_t timeline_later_ = 0;
  bool trains_ = false;                ///< A job has begun to train.
  Instant began_at_;                   ///< Start of the first job's training.
  std::vector<uint64_t> sent_before_;  ///< By link: bytes sent by then.
  RunObserver* observer_ = nullptr;
  std::vector<InspectedNode*> inspected_;  ///< The aggregators, as the observer sees them.
  bool ended_by_observer_ = false;
};

}  // namespace tributary::lab
