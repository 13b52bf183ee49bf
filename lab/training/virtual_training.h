// SPDX-License-Identifier: Apache-2.0
/// @file
/// Data-parallel training of a small real model in virtual time, through the run's aggregators.
///
/// Model:   Each worker applies the averages that it receives to its copy of the parameters; copies
///          stay bit-identical. A worker that skips its computation contributes nothing.
///          Asynchronous: it pushes its own gradients' change, divided by the workers, and takes
///          the parameters that result (BytePS §5, Figure 11b). Copies differ.
///          Averaging: it applies its own gradients; parameters travel (local SGD).
/// Exact:   Same binary, same processor kind: same bits (see matrix_kernel.h).
/// Threads: One object, one thread.
/// Errors:  failed() counts failed all-reduces; their averages are not applied.
/// Tests:   tests/lab/training/virtual_training_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "lab/run.h"
#include "lab/training/adam.h"
#include "lab/training/corpus.h"
#include "lab/training/language_model.h"

namespace tributary::lab {

struct TrainingConfig {
  uint32_t workers = 6;
  uint64_t seed = 1;
  LanguageModelShape shape{.context = 4, .embedding = 16, .hidden = 64};
  Adam::Config adam{.rate = 1.0e-2F};
  uint32_t batch = 64;  ///< Examples of one worker in one iteration.
  uint32_t validation_examples = 1024;
  uint64_t text_bytes = 400'000;
  bool asynchronous = false;         ///< For the back end "asynchronous".
  bool averages_parameters = false;  ///< For ModelSettings::local_steps above 1.
  uint32_t top_count = 5;            ///< Source: Trio paper Figure 12 shows top-5 accuracy.
  /// The run ends kAfterTarget iterations after it has reached this accuracy (time_to_accuracy());
  /// not set: with the scenario's last iteration.
  std::optional<double> target = {};
};

class VirtualTraining final : public TensorExchange {
 public:
  /// Top-5 validation accuracy after an iteration of the median worker.
  struct Progress {
    uint32_t iteration;  ///< From 0.
    Instant at;          ///< Time at which the median worker ended it.
    double accuracy;     ///< Accuracy of the worker's parameters; averaging, of the last mean.
  };

  explicit VirtualTraining(const TrainingConfig& config);

  std::span<float> tensor(uint32_t worker, uint32_t iteration, bool computed) override;
  void apply_alone(uint32_t worker, uint32_t iteration) override;
  void reduced(uint32_t worker, uint32_t iteration, const host::Outcome& outcome) override;
  void iteration_ended(uint32_t worker, uint32_t iteration, Instant at) override;
  [[nodiscard]] bool is_last(uint32_t iteration) const override { return iteration == last_; }
  [[nodiscard]] host::ReduceOp op() const override;
  [[nodiscard]] float scale() const override;

  [[nodiscard]] const std::vector<Progress>& progress() const { return progress_; }
  /// Returns the number of failed all-reduces.
  [[nodiscard]] uint64_t failed() const { return failed_; }
  /// Returns whether all workers that applied the most averages have the same parameters.
  [[nodiscard]] bool parameters_identical() const;

 private:
  struct Worker {
    explicit Worker(const TrainingConfig& config);
    LanguageModel model;
    Adam adam;
    std::vector<float> gradients;  ///< Gradients of its last batch.
    std::vector<float> exchanged;  ///< A copy of them, then the average.
    uint64_t applied = 0;
    bool alone = false;  ///< It has applied gradients of its own since the last mean.
  };

  void compute(uint32_t worker, uint32_t iteration);
  void fill_change(uint32_t worker, uint32_t iteration);

  const TrainingConfig config_;
  const Corpus corpus_;
  std::vector<Worker> workers_;
  Batch batch_;
  Batch validation_;
  std::vector<uint32_t> ended_;  ///< Shape [iteration]: workers that have ended it.
  std::vector<Progress> progress_;
  uint32_t last_ = UINT32_MAX;  ///< The iteration with which the run ends, if that is known.
  uint64_t failed_ = 0;
};

/// Iterations that show how accuracy goes on after the target.
inline constexpr uint32_t kAfterTarget = 20;
/// Returns the time at which accuracy reached `target` and stayed there on average over `kSettled`
/// iterations; never() if it did not.
inline constexpr uint32_t kSettled = 5;
[[nodiscard]] Instant time_to_accuracy(std::span<const VirtualTraining::Progress> progress,
                                       double target);

}  // namespace tributary::lab
