// SPDX-License-Identifier: Apache-2.0
/// @file
/// One worker of data-parallel training: gradients of its own batch, averaged with everyone's,
/// applied to its own copy of the parameters.
///
/// Model:   All workers start with the same parameters and apply the same averages with the same
///          code, so their parameters stay the same to the last bit; checksum() shows it.
///          A worker whose gradients came too late for every block (straggler mitigation) sends the
///          same gradients again in the next iteration instead of computing new ones. So it catches
///          up, and at worst a gradient of an iteration before takes part; the sums stay exact.
/// Shapes:  The gradient is one tensor of shape [parameter_count].
/// Threads: One object, one thread.
/// Errors:  An all-reduce that fails ends the training with its text.
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

/// Gradients are cut to +-this, so that no value can overflow the fixed-point sum. Those of this
/// model stay below 0.2 in practice.
inline constexpr float kGradientLimit = 1.0F;

struct TrainConfig {
  lab::LanguageModelShape shape;
  lab::Adam::Config adam;
  uint32_t world = 1;
  uint32_t rank = 0;
  uint32_t batch = 64;   ///< Examples of one worker in one iteration, a multiple of 4.
  uint64_t seed = 1;     ///< The same on all workers.
  float scale = 1.0e8F;  ///< At most lane_magnitude_max(world) / kGradientLimit.
};

/// What one iteration showed.
struct IterationRecord {
  uint32_t iteration = 0;        ///< From 0.
  double seconds = 0.0;          ///< Since this worker's training began, at the iteration's end.
  double loss = 0.0;             ///< Of this worker's last batch, before the update; nats per byte.
  uint64_t degraded_blocks = 0;  ///< Blocks summed without every source.
};

class TrainWorker {
 public:
  /// Both references must outlive the worker.
  /// @pre config.scale * kGradientLimit <= host::lane_magnitude_max(config.world).
  TrainWorker(const TrainConfig& config, const lab::Corpus& corpus, SumLedger& ledger);

  /// First step: the gradients of this iteration's batch; those of the last one if was_late().
  void compute_gradients();
  /// Second step: writes what will be sent into the ledger. @return the tensor to all-reduce, a
  /// copy of the gradients.
  std::span<float> record_gradients();
  /// Third step, after the all-reduce (mean, fixed scale): checks every sum, then updates the
  /// parameters. Refuses an outcome that is not kOk. `seconds` of the record is left 0.
  Result<IterationRecord> apply(const host::Outcome& outcome);

  /// FNV-1a over the parameters' bytes.
  [[nodiscard]] uint64_t checksum() const;
  /// Mean loss over `examples` of the validation text, nats per byte.
  double validation_loss(uint32_t examples);
  [[nodiscard]] const SumCheck& sums() const { return sums_; }
  /// The last outcome held nothing of this worker.
  [[nodiscard]] bool was_late() const { return was_late_; }
  /// Iterations after which that was so.
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
  std::vector<float> reduced_;    ///< First a copy of them, then the average.
  SumCheck sums_;
  bool was_late_ = false;
  uint32_t late_iterations_ = 0;
  uint32_t iteration_ = 0;
  double loss_ = 0.0;
};

/// What the loop needs from outside. All are set.
struct TrainHooks {
  std::function<host::Outcome(std::span<float>)> all_reduce;
  std::function<Instant()> now;
  /// How long to sleep at iteration * host::kDelayPoints + point; 0 for not at all. The points are
  /// before the computation, before the lanes are recorded, before the all-reduce.
  std::function<Duration(uint64_t delay_point)> delay_at;
  std::function<void(Duration)> sleep;
  std::function<void(const IterationRecord&)> report;
};

/// Runs `iterations` iterations. Ends early with the text of an all-reduce that failed.
Result<void> train(TrainWorker& worker, uint32_t iterations, const TrainHooks& hooks);

}  // namespace tributary::demo
