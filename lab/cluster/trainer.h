// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's training loop in virtual time: computes, submits each bucket when it is ready, waits.
///   [sleep] forward [sleep] backward ... bucket 0 ready ... [sleep] ... last bucket ready | wait
///
/// Model:   Communication overlaps the backward pass bucket by bucket, as in DDP. The backward pass
///          includes the optimiser. A sleep stops the training loop, not the network code. With
///          overlap_forward, each layer of the next forward pass waits only for its own bucket.
///          With H local steps, only each H-th iteration has buckets. A late worker (CatchUp)
///          receives the sums of the buckets that it skips and contributes nothing to them. Sums
///          that a switch has discarded cost no time.
/// Errors:  A transfer that ends with an error ends the trainer; see failed() and dropped_out().
/// Tests:   tests/lab/run_test.cc, straggling_run_test.cc, scheduling_run_test.cc
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
  /// The state that all workers of a run share. Outlives them.
  struct Plan {
    const Scenario& scenario;
    const Workload& workload;
    const StragglerPattern& pattern;
    TensorExchange* exchange = nullptr;
    bool asynchronous = false;  ///< The back end keeps the parameters; no sum is checked.
    bool skips = false;         ///< Late workers leave computation out.
  };

  Trainer(const Plan& plan, uint32_t rank, WorkerNode& node, EventCore& core);
  ~Trainer();

  /// Begins the first iteration. Call it once.
  void begin();
  /// Stops the process and its computation for a time.
  void pause(Duration length);

  /// Returns whether the loop has ended: all iterations done, dropped out, or failed.
  [[nodiscard]] bool done() const { return phase_ == Phase::kDone; }
  /// Returns whether the worker does not compute because sums are missing.
  [[nodiscard]] bool waits() const { return phase_ == Phase::kWaiting; }
  /// Returns whether the worker desynchronised and the scenario lets the others continue.
  [[nodiscard]] bool dropped_out() const { return dropped_out_; }
  /// Returns the reason of a failure; empty without one.
  [[nodiscard]] const std::string& failed() const { return failed_; }
  /// Returns its present activity, for messages: "waits for the sums of iteration 3, bucket 1".
  [[nodiscard]] std::string doing() const;

  [[nodiscard]] WorkerResult result() const;
  /// Returns the end of each iteration, from begin() on.
  [[nodiscard]] const std::vector<Instant>& ends() const { return ends_; }
  /// A bucket that the worker received without contributing to it.
  struct SkippedBucket {
    uint32_t iteration;
    uint32_t bucket;
    uint64_t blocks;  ///< Simulated.
  };
  [[nodiscard]] const std::vector<SkippedBucket>& skipped() const { return skipped_; }
  [[nodiscard]] uint64_t wrong_sums() const { return wrong_sums_; }
  [[nodiscard]] uint64_t checked_sums() const { return checked_sums_; }

 private:
  enum class Phase : uint8_t { kIdle, kSteps, kWaiting, kDone };
  enum class StepKind : uint8_t { kSleep, kCompute, kBucket, kApplyAlone };
  /// The steps of an iteration, in order. A bucket takes no time, and neither does kApplyAlone.
  struct Step {
    StepKind kind;
    Duration length;
    uint32_t bucket = 0;
    bool ahead = false;  ///< Belongs to the next iteration; needs the bucket's sum.
  };

  void on_event(uint64_t argument) override;
  void on_round() override;

  void begin_iteration();
  void plan_steps();
  void add_forward_ahead();
  void add_backward(double factor, Duration delay);
  /// Executes steps until one takes time, one needs a missing sum, or none is left.
  void run_steps();
  /// Returns whether to skip a computation because the others have completed the iteration.
  [[nodiscard]] bool skips(const Step& step);
  /// Returns whether the others have completed the bucket that the worker would compute next.
  [[nodiscard]] bool overtaken() const;
  /// Ends the computation in progress.
  void skip_computation();
  void submit(uint32_t bucket);
  void fill(uint32_t bucket);
  [[nodiscard]] bool is_usable(uint32_t bucket) const;
  /// @return false if the trainer ended with it.
  bool take_outcome(uint32_t bucket);
  void check_sums(uint32_t bucket);
  void end_iteration();
  void end();
  [[nodiscard]] uint32_t bucket_count() const;
  /// Returns whether the iteration has traffic; with local steps only some do.
  [[nodiscard]] bool exchanges() const;
  /// Returns whether the iteration has no step left and needs no further sum.
  [[nodiscard]] bool has_all() const;
  [[nodiscard]] bool is_exchange(uint32_t bucket) const;

  const Plan plan_;
  const uint32_t rank_;
  WorkerNode& node_;
  EventCore& core_;

  Phase phase_ = Phase::kIdle;
  uint32_t iteration_ = 0;
  std::vector<Step> steps_;
  size_t step_ = 0;  ///< The current one.
  Instant step_began_at_;
  Instant step_ends_at_;
  Duration step_paused_;      ///< Time for which the process stood still in this step.
  uint64_t step_number_ = 0;  ///< Tells the current step's events from skipped ones'.

  std::vector<host::Transfer> transfers_;       ///< Shape [bucket].
  std::vector<std::vector<int32_t>> integers_;  ///< Shape [bucket][element], real payload only.
  std::vector<bool> submitted_;                 ///< Shape [bucket].
  std::vector<bool> taken_;                     ///< Shape [bucket].
  uint32_t taken_count_ = 0;
  bool skipping_ = false;  ///< This iteration skipped computation, wholly or in part.

  bool dropped_out_ = false;
  std::string failed_;
  std::vector<Instant> ends_;
  Instant begun_at_;
  Duration worked_before_;  ///< The node's CPU time for packets before begin().
  Instant ended_at_;
  WorkerResult account_;
  std::vector<SkippedBucket> skipped_;
  uint64_t wrong_sums_ = 0;
  uint64_t checked_sums_ = 0;
};

}  // namespace tributary::lab
