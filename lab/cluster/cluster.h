// SPDX-License-Identifier: Apache-2.0
/// @file
/// One run: builds the network of a scenario, lets its workers train, and collects the result.
///
/// Threads: One.
/// Errors:  create() refuses bad topologies and captures. run() names the worker that fails or
///          hangs.
/// Tests:   tests/lab/run_test.cc
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/event_core.h"
#include "engine/model/meter.h"
#include "lab/backends/aggregator_node.h"
#include "lab/cluster/background_flow.h"
#include "lab/cluster/plan.h"
#include "lab/cluster/trainer.h"
#include "lab/cluster/worker_node.h"
#include "lab/run.h"
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
  ~Cluster();

  /// Runs to the end. Call it once. @param observer May be null.
  [[nodiscard]] Result<RunResult> run(RunObserver* observer = nullptr);

 private:
  Cluster(const Scenario& scenario, const BackendKind& backend,
          std::unique_ptr<StragglerPattern> pattern, ClusterPlan plan, Duration typical_iteration,
          TensorExchange* exchange);

  [[nodiscard]] Result<void> build();
  [[nodiscard]] Result<void> begin_captures();
  [[nodiscard]] Result<void> find_timeline();
  [[nodiscard]] Result<net::BuiltNode> make_node(const net::NodeSpec& spec);
  /// Returns the time at which an unfinished run ends with an error.
  [[nodiscard]] Instant limit() const;
  /// Executes events until `done()`, up to `end`, or until the observer stops. @return done().
  template <class F>
  [[nodiscard]] bool advance(Instant end, F&& done);
  /// Does the same with an observer. A separate function, so that runs without one pay nothing.
  [[nodiscard]] bool advance_observed(Instant end, const std::function<bool()>& done);
  [[nodiscard]] Result<RunResult> run_to_end();
  [[nodiscard]] Result<void> join_all();
  void begin_training();
  [[nodiscard]] Result<void> train();
  /// Names the first worker that failed, or else the one furthest behind.
  [[nodiscard]] Error stuck_error() const;
  /// Returns the packets that machines, cables and hosts have lost, by place and reason; empty if
  /// none: "switch dropped 146181 packets: packet buffer full; ".
  [[nodiscard]] std::string losses() const;
  /// Returns the result, or an error where it depends on the order of packets in a train: a PFE
  /// dropped packets and workers repaired the losses.
  [[nodiscard]] Result<RunResult> faithful(RunResult result) const;
  [[nodiscard]] RunResult collect() const;
  void note_traffic(uint32_t rank, WorkerResult& worker) const;
  /// Returns the results received of blocks that some worker skipped.
  [[nodiscard]] uint64_t skipped_blocks() const;
  void collect_iterations(RunResult& result) const;
  void collect_links(RunResult& result) const;
  [[nodiscard]] std::string bottleneck(const RunResult& result) const;

  const Scenario scenario_;
  const BackendKind& backend_;
  const std::unique_ptr<StragglerPattern> pattern_;
  const Duration typical_iteration_;
  const Workload workload_;
  const ClusterPlan plan_;
  engine::LatencyHistogram latency_;

  EventCore core_;
  net::Network network_;
  net::BuiltNetwork built_;
  std::vector<std::unique_ptr<AggregatorNode>> aggregators_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;          ///< By rank.
  std::vector<std::unique_ptr<BackgroundFlow>> backgrounds_;  ///< As the pattern's background_to().
  std::deque<net::PcapWriter> captures_;
  std::optional<net::LinkId> timeline_link_;
  std::vector<uint64_t> timeline_;
  uint64_t timeline_later_ = 0;
  Trainer::Plan training_;
  std::vector<std::unique_ptr<Trainer>> trainers_;  ///< By rank.
  Instant began_at_;
  RunObserver* observer_ = nullptr;
  std::vector<InspectedNode*> inspected_;  ///< The aggregators, as the observer sees them.
  bool ended_by_observer_ = false;
};

}  // namespace tributary::lab
