// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/trained_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "lab/run.h"

namespace tributary::lab {

std::string training_name(const std::string& terms) {
  return fmt::format("with a trained model, version {}{}{}", kTrainingVersion,
                     terms.empty() ? "" : ", ", terms);
}

Result<PointOutcome> run_training(const Scenario& scenario, const TrainingConfig& config) {
  VirtualTraining training(config);
  Result<RunResult> result = run_scenario(scenario, &training);
  if (!result) return tl::unexpected(result.error());
  if (training.failed() != 0) {
    return failure(fmt::format("{} all-reduces of the trained model failed", training.failed()));
  }
  if (!config.asynchronous && !training.parameters_identical()) {
    return failure("workers that applied the same sums have different parameters");
  }
  PointOutcome outcome{.result = *std::move(result), .accuracy = {}};
  for (const VirtualTraining::Progress& step : training.progress()) {
    outcome.accuracy.push_back({.at = step.at.since_start(), .accuracy = step.accuracy});
  }
  return outcome;
}

Scenario small_model_cluster(Backend backend, uint32_t workers, uint32_t iterations) {
  constexpr uint64_t kParameterBytes =
      uint64_t{TrainingConfig().shape.parameter_count()} * sizeof(float);
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.iterations = iterations;
  scenario.gradients = 256;
  scenario.window = 64;
  scenario.payload = Payload::kReal;
  scenario.link.rate_bits_per_s = 100'000'000;
  scenario.host.nic_bits_per_s = 100'000'000;
  // The trained tensor is one more bucket of a synchronous run.
  const bool replaces = backend == Backend::kAsynchronous;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {replaces ? kParameterBytes : sizeof(float)},
                    .forward = milliseconds(15),
                    .backward = milliseconds(30)};
  // Computation, and 100 KB at 100 Mbit/s: one unit of sleep for all systems.
  scenario.straggler.typical_iteration = milliseconds(53);
  return scenario;
}

Result<PointOutcome> train_small_model(const Scenario& scenario, float rate) {
  return run_training(scenario, {.workers = scenario.workers,
                                 .seed = scenario.seed,
                                 .adam = {.rate = rate, .decay1 = kMomentum},
                                 .asynchronous = scenario.backend == Backend::kAsynchronous,
                                 .averages_parameters = scenario.model.local_steps > 1});
}

double seconds_to(const PointOutcome& outcome, double target) {
  std::vector<VirtualTraining::Progress> curve;
  for (const AccuracyStep& step : outcome.accuracy) {
    curve.push_back({.iteration = static_cast<uint32_t>(curve.size()),
                     .at = Instant(step.at),
                     .accuracy = step.accuracy});
  }
  const Instant at = time_to_accuracy(curve, target);
  return at == Instant::never() ? std::numeric_limits<double>::quiet_NaN()
                                : in_seconds(at.since_start());
}

double accuracy_by(const PointOutcome& outcome, Duration at) {
  const auto end =
      std::upper_bound(outcome.accuracy.begin(), outcome.accuracy.end(), at,
                       [](Duration limit, const AccuracyStep& step) { return limit < step.at; });
  const auto count = std::min<ptrdiff_t>(end - outcome.accuracy.begin(), kSettled);
  double sum = 0;
  for (auto step = end - count; step != end; step++) sum += step->accuracy;
  return count == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : 100 * sum / static_cast<double>(count);
}

PlotSeries accuracy_line(std::string name, const PointOutcome& outcome) {
  PlotSeries line{.name = std::move(name), .points = {}};
  for (const AccuracyStep& step : outcome.accuracy) {
    line.points.push_back({in_seconds(step.at), 100 * step.accuracy});
  }
  return line;
}

}  // namespace tributary::lab
