// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's training loop in virtual time: it computes, submits its buckets as they become ready,
/// waits for the last one, and begins the next iteration.
///
///   [sleep] forward [sleep] backward ... bucket 0 ready ... [sleep] ... last bucket ready | wait
///
/// Model:   Communication overlaps the backward pass bucket by bucket, as DDP does it
///          (lab/workload/ddp_workload.h). What a step of the optimiser costs is part of the
///          backward pass. Sleeping at a delay point keeps the training loop, not the network code.
///          With mitigation a bucket may be summed without this worker. It notices when it hears
///          results of blocks it has not sent yet: then nobody waits for what it computes now. What
///          it does is CatchUp:
///          - kSkip: it leaves out the computation of buckets that it has heard results of, submits
///            what its gradient buffers hold (blocks that are complete do not take it, the few in
///            progress do), takes the results it missed, and so is with the others soon.
///          - kCompute: it computes everything and stays behind until the others wait for longer
///            than it does.
///          A switch that keeps one result a slot has no sums for a worker that missed several: the
///          worker goes on without them, as if somebody's parameters cost nothing to take over.
/// Threads: One.
/// Errors:  A transfer that ends with an error ends the trainer; see failed() and dropped_out().
/// Tests:   tests/lab/run_test.cc, straggling_run_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/event_core.h"
#include "lab/cluster/worker_node.h"
#include "lab/result.h"
#include "lab/run.h"
#include "lab/scenario.h"
#include "lab/workload/ddp_workload.h"
#include "lab/workload/straggler.h"

namespace tributary::lab {

class Trainer final : private EventTarget, private WorkerNode::Observer {
 public:
  /// What all workers of a run share. Outlives them.
  struct Plan {
    const Scenario& scenario;
    const Workload& workload;
    const StragglerPattern& pattern;
    TensorExchange* exchange = nullptr;
  };

  Trainer(const Plan& plan, uint32_t rank, WorkerNode& node, EventCore& core);
  ~Trainer();

  /// Begins the first iteration now. Once.
  void begin();
  /// The process stands still from now on: the computation, too.
  void pause(Duration length);

  /// Nothing more will come of it: all iterations done, dropped out, or failed.
  [[nodiscard]] bool done() const { return phase_ == Phase::kDone; }
  /// Its computation is done, sums are missing.
  [[nodiscard]] bool waits() const { return phase_ == Phase::kWaiting; }
  /// Desynchronised, and the scenario lets the others go on.
  [[nodiscard]] bool dropped_out() const { return dropped_out_; }
  /// Why it failed; empty if it did not.
  [[nodiscard]] const std::string& failed() const { return failed_; }
  /// What it does now, for messages: "waits for the sums of iteration 3, bucket 1".
  [[nodiscard]] std::string doing() const;

  [[nodiscard]] WorkerResult result() const;
  /// When each iteration ended, from its begin().
  [[nodiscard]] const std::vector<Instant>& ends() const { return ends_; }
  [[nodiscard]] uint64_t wrong_sums() const { return wrong_sums_; }
  [[nodiscard]] uint64_t checked_sums() const { return checked_sums_; }

 private:
  enum class Phase : uint8_t { kIdle, kSteps, kWaiting, kDone };
  enum class StepKind : uint8_t { kSleep, kCompute, kBucket };
  /// One thing after another; a bucket takes no time.
  struct Step {
    StepKind kind;
    Duration length;
    uint32_t bucket = 0;
  };

  void on_event(uint64_t argument) override;
  void on_round() override;

  void begin_iteration();
  void plan_steps();
  void add_backward(double factor, Duration delay);
  /// Goes on until a step takes time or none is left.
  void run_steps();
  /// The others have gone on without what would be computed now.
  [[nodiscard]] bool overtaken() const;
  /// Leaves the computation that runs now out.
  void skip_computation();
  void submit(uint32_t bucket);
  void fill(uint32_t bucket);
  [[nodiscard]] bool is_usable(uint32_t bucket) const;
  /// @return false when the trainer has ended with it.
  bool take_outcome(uint32_t bucket);
  void check_sums(uint32_t bucket);
  void end_iteration();
  void end();
  [[nodiscard]] uint32_t bucket_count() const;
  [[nodiscard]] bool is_exchange(uint32_t bucket) const;

  const Plan plan_;
  const uint32_t rank_;
  WorkerNode& node_;
  EventCore& core_;

  Phase phase_ = Phase::kIdle;
  uint32_t iteration_ = 0;
  std::vector<Step> steps_;
  size_t step_ = 0;  ///< The one that runs.
  Instant step_began_at_;
  Instant step_ends_at_;
  uint64_t step_number_ = 0;  ///< Tells events of steps that were skipped from the current one's.

  std::vector<host::Transfer> transfers_;       ///< Shape [bucket].
  std::vector<std::vector<int32_t>> integers_;  ///< Shape [bucket][element], real payload only.
  std::vector<bool> submitted_;                 ///< Shape [bucket].
  std::vector<bool> taken_;                     ///< Shape [bucket].
  uint32_t taken_count_ = 0;
  bool skipping_ = false;  ///< This iteration's computation was left out, wholly or in part.

  bool dropped_out_ = false;
  std::string failed_;
  std::vector<Instant> ends_;
  Instant begun_at_;
  Instant ended_at_;
  WorkerResult account_;
  uint64_t wrong_sums_ = 0;
  uint64_t checked_sums_ = 0;
};

}  // namespace tributary::lab
