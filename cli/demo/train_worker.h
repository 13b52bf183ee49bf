// SPDX-License-Identifier: Apache-2.0
/// @file
/// One worker of data-parallel training. It computes gradients of its own batch, averages them with
/// all workers and applies the average to its own copy of the parameters.
///
/// Model:   All workers start with the same parameters and apply the same averages with the same
///          code, so their parameters stay bit-identical; checksum() proves it. A worker that was
///          late for every block (straggler mitigation) sends the same gradients in the next
///          iteration, so it catches up. Such gradients are one iteration old; the sums stay exact.
/// Shapes:  The gradient is one tensor of shape [parameter_count].
/// Threads: One object, one thread.
/// Errors:  A failed all-reduce ends the training with its text.
/// Tests:   tests/cli/demo/train_worker_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/demo/sum_ledger.h"
#include "host/communicator.h"
#include "lab/training/adam.h"
#include "lab/training/corpus.h"
#include "lab/training/language_model.h"

namespace tributary::demo {

/// Gradients are clamped to +-this, so that the fixed-point sum cannot overflow. This model's
/// gradients stay below 0.2 in practice.
inline constexpr float kGradientLimit = 1.0F;

struct TrainConfig {
  lab::LanguageModelShape shape;
  lab::Adam::Config adam;
  uint32_t world = 1;
  uint32_t rank = 0;
  uint32_t batch = 64;   ///< One worker's examples in one iteration; multiple of 4.
  uint64_t seed = 1;     ///< The same on all workers.
  float scale = 1.0e8F;  ///< At most lane_magnitude_max(world) / kGradientLimit.
};

/// The result of one iteration.
struct IterationRecord {
  uint32_t iteration = 0;        ///< From 0.
  double seconds = 0.0;          ///< From the start of training to the end of the iteration.
  double loss = 0.0;             ///< On this worker's last batch, before the update; nats per byte.
  uint64_t degraded_blocks = 0;  ///< Blocks summed without every source.
};

class TrainWorker {
 public:
  /// Both references must outlive the worker.
  /// @pre config.scale * kGradientLimit <= host::lane_magnitude_max(config.world).
  TrainWorker(const TrainConfig& config, const lab::Corpus& corpus, SumLedger& ledger);

  /// Step 1: computes the gradients of this iteration's batch. Keeps the last ones if was_late().
  void compute_gradients();
  /// Step 2: writes the gradients into the ledger.
  /// @return the tensor to all-reduce, a copy of the gradients.
  std::span<float> record_gradients();
  /// Step 3, after the all-reduce (mean, fixed scale): checks every sum, then updates the
  /// parameters. Refuses an outcome that is not kOk. Leaves the record's `seconds` at 0.
  Result<IterationRecord> apply(const host::Outcome& outcome);

  /// Returns the FNV-1a hash of the parameters' bytes.
  [[nodiscard]] uint64_t checksum() const;
  /// Returns the mean loss over `examples` of the validation text, in nats per byte.
  double validation_loss(uint32_t examples);
  [[nodiscard]] const SumCheck& sums() const { return sums_; }
  /// Returns true if the last outcome held no contribution of this worker.
  [[nodiscard]] bool was_late() const { return was_late_; }
  /// Returns the number of iterations in which that was true.
  [[nodiscard]] uint32_t late_iterations() const { return late_iterations_; }
  [[nodiscard]] const TrainConfig& config() const { return config_; }

 private:
  const TrainConfig config_;
  const lab::Corpus& corpus_;
  SumLedger& ledger_;
  lab::LanguageModel model_;
  lab::Adam adam_;
  lab::Batch batch_;
  std::vector<float> gradients_;  ///< This worker's own.
  std::vector<float> reduced_;    ///< First a copy of `gradients_`, then the average.
  SumCheck sums_;
  bool was_late_ = false;
  uint32_t late_iterations_ = 0;
  uint32_t iteration_ = 0;
  double loss_ = 0.0;
};

/// The loop's dependencies. All must be set.
struct TrainHooks {
  std::function<host::Outcome(std::span<float>)> all_reduce;
  std::function<Instant()> now;
  /// Returns the sleep at iteration * host::kDelayPoints + point; 0 for none. The points precede
  /// the computation, the recording of the lanes and the all-reduce.
  std::function<Duration(uint64_t delay_point)> delay_at;
  std::function<void(Duration)> sleep;
  std::function<void(const IterationRecord&)> report;
};

/// Runs `iterations` iterations. Ends early with the text of a failed all-reduce.
Result<void> train(TrainWorker& worker, uint32_t iterations, const TrainHooks& hooks);

}  // namespace tributary::demo
