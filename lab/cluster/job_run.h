// SPDX-License-Identifier: Apache-2.0
/// @file
/// One training job in a network: its workers and their trainers, from the first join to the end.
///
/// Model:   A job waits for its start, joins, trains and has ended. Its owner, the cluster, runs
///          the events and calls the next step when is_due() or at next_milestone().
/// Threads: One.
/// Errors:  The worker that fails, hangs or cannot join is named, with the job's name if it has
///          one.
/// Tests:   tests/lab/run_test.cc, tests/lab/shared_run_test.cc
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/event_core.h"
#include "engine/model/meter.h"
#include "lab/backends/backend.h"
#include "lab/cluster/background_flow.h"
#include "lab/cluster/plan.h"
#include "lab/cluster/trainer.h"
#include "lab/cluster/worker_node.h"
#include "lab/result.h"
#include "lab/run.h"
#include "lab/workload/straggler.h"
#include "net/network.h"
#include "net/topology.h"

namespace tributary::lab {

/// Returns the bytes that a link has sent: those of its counters without the queue.
[[nodiscard]] uint64_t sent_bytes(const net::Network& network, net::LinkId link);

class JobRun {
 public:
  struct Terms {
    std::string name;  ///< Empty for the only job of a run.
    Scenario scenario;
    Duration typical_iteration;  ///< The unit of straggler delays.
    Duration start;
  };
  enum class Phase : uint8_t { kWaiting, kJoining, kTraining, kEnded };

  /// @param exchange May be null.
  static Result<std::unique_ptr<JobRun>> create(Terms terms, TensorExchange* exchange);
  JobRun(const JobRun&) = delete;
  JobRun& operator=(const JobRun&) = delete;
  ~JobRun();

  [[nodiscard]] const std::string& name() const { return terms_.name; }
  [[nodiscard]] const Scenario& scenario() const { return terms_.scenario; }
  [[nodiscard]] const BackendKind& backend() const { return backend_; }
  [[nodiscard]] std::vector<uint32_t> background_to() const { return pattern_->background_to(); }
  /// Returns whether gradients exist, or only their sizes.
  [[nodiscard]] bool has_values() const;

  // --- Building ---

  /// Sets the plan, before any node is made.
  void set_plan(ClusterPlan plan) { plan_ = std::move(plan); }
  [[nodiscard]] ClusterPlan& plan() { return plan_; }
  /// Makes the node of a worker or of background traffic, if it is this job's.
  [[nodiscard]] std::optional<net::BuiltNode> make_node(net::Network& network,
                                                        const net::NodeSpec& spec);
  /// Makes the trainers. Call it when all nodes exist. @param core Outlives the job.
  void make_trainers(EventCore& core);

  // --- Running ---

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] Instant began_at() const { return began_at_; }
  /// Returns whether the present phase has come to its end by events: all have joined, all are
  /// done, or one has failed. Called before each event.
  [[nodiscard]] bool is_due();
  /// Returns the time of the next step that no event brings: the start, a pause, or the limit.
  [[nodiscard]] Instant next_milestone() const;
  /// Enters the next phase, if it is due, or acts on a milestone.
  [[nodiscard]] Result<void> step(Instant now);

  // --- Collecting ---

  /// Returns the job's part of the result. `total` counts to the end of the job, or to `now`.
  [[nodiscard]] RunResult collect(const net::Network& network, Instant now) const;
  /// Returns a line for each host that lost packets: "worker 3 dropped 5 packets: receive buffer
  /// full".
  [[nodiscard]] std::vector<std::string> losses() const;
  /// Returns the packets of a worker's contributions with trains, for each packet without. Above 1
  /// if a bucket's last train is not full.
  [[nodiscard]] double packets_per_real_packet() const;

 private:
  JobRun(Terms terms, const BackendKind& backend, std::unique_ptr<StragglerPattern> pattern,
         TensorExchange* exchange);

  [[nodiscard]] Duration limit() const;
  [[nodiscard]] Result<void> check_joined(bool all) const;
  void begin_training(Instant now);
  [[nodiscard]] Error stuck_error() const;
  [[nodiscard]] tl::unexpected<Error> named(const std::string& text) const;
  void note_traffic(const net::Network& network, uint32_t rank, WorkerResult& worker) const;
  [[nodiscard]] Duration time_of_the_others() const;
  [[nodiscard]] uint64_t skipped_blocks() const;
  void collect_iterations(RunResult& result) const;

  const Terms terms_;
  const BackendKind& backend_;
  const std::unique_ptr<StragglerPattern> pattern_;
  const Workload workload_;
  ClusterPlan plan_;
  engine::LatencyHistogram latency_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;          ///< By rank.
  std::vector<std::unique_ptr<BackgroundFlow>> backgrounds_;  ///< As background_to().
  Trainer::Plan training_;
  std::vector<std::unique_ptr<Trainer>> trainers_;  ///< By rank.

  Phase phase_ = Phase::kWaiting;
  Instant phase_began_at_;
  Instant began_at_;  ///< Start of training.
  Instant ended_at_;
  uint32_t reached_ = 0;  ///< Workers below have come to the end of the phase.
  bool paused_ = false;   ///< The pattern's pause has begun.
};

}  // namespace tributary::lab
