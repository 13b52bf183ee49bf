// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs of figures that train the small model of lab/training in a cluster in virtual time.
///
/// Model:   The figures of time to accuracy share a cluster whose links are as slow beside the
///          model's parameters (100 KB) as 100 Gbit/s are beside ResNet50's (100 MB).
///
/// Units:   Times in seconds of virtual time, accuracies as shares of 1.
/// Threads: Pure functions.
/// Errors:  run_training() fails if the run fails, an all-reduce of the model fails, or workers
///          that applied the same sums have different parameters.
/// Source:  Trio paper §6.2 (time to accuracy).
/// Tests:   tests/lab/figures/figures_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "lab/report/svg_plot.h"
#include "lab/scenario.h"
#include "lab/sweep/outcome.h"
#include "lab/training/virtual_training.h"

namespace tributary::lab {

/// Version of the training's arithmetic. Increase it with each change of lab/training that changes
/// results: model_digest() does not cover it.
inline constexpr uint32_t kTrainingVersion = 5;

/// Returns Point::extra of a training. @param terms Its inputs beside the scenario.
[[nodiscard]] std::string training_name(const std::string& terms = "");

/// Runs the scenario with a model that is trained in it.
[[nodiscard]] Result<PointOutcome> run_training(const Scenario& scenario,
                                                const TrainingConfig& config);

// The training of the figures of time to accuracy.
inline constexpr double kTargetAccuracy = 0.90;  ///< Top-5, as in Figure 12 of the Trio paper.
inline constexpr uint32_t kTrainedIterations = 260;
inline constexpr double kTargetAccuracyQuick = 0.30;
inline constexpr uint32_t kTrainedIterationsQuick = 40;
/// Rates of the optimiser: each is the best of 0.01, 0.02, 0.04 and 0.08 without stragglers.
/// docs/lab-studies.md has the comparison.
inline constexpr float kSynchronousRate = 0.02F;
inline constexpr float kAsynchronousRate = 0.04F;
/// Asynchrony acts as momentum, so the optimiser has none of its own. Source: Mitliagkas et al.,
/// "Asynchrony begets Momentum", Allerton 2016.
inline constexpr float kMomentum = 0;

/// Returns a cluster that trains the small model and nothing else: 45 ms of computation, and 100 KB
/// over 100 Mbit/s.
[[nodiscard]] Scenario small_model_cluster(Backend backend, uint32_t workers, uint32_t iterations);

/// Trains the small model in such a cluster, as its back end and its local steps need it.
/// @param rate Learning rate of the optimiser.
[[nodiscard]] Result<PointOutcome> train_small_model(const Scenario& scenario, float rate);

/// Returns the time at which the accuracy settled at `target`; not finite if it did not.
[[nodiscard]] double seconds_to(const PointOutcome& outcome, double target);

/// Returns the accuracy that training had reached at time `at`, in percent: the mean of the last
/// kSettled iterations that ended by then; not finite without any.
[[nodiscard]] double accuracy_by(const PointOutcome& outcome, Duration at);

/// Returns the accuracy in percent over the time.
[[nodiscard]] PlotSeries accuracy_line(std::string name, const PointOutcome& outcome);

}  // namespace tributary::lab
