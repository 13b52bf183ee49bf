// SPDX-License-Identifier: Apache-2.0
// Figure 12 of the Trio paper: accuracy over time with p = 16 %, for three networks (§6.2). Trio-ML
// against SwitchML and a switch that waits for all workers. Traffic and times are the networks'
// own. The workers train a small real model, whose gradients travel as each iteration's last
// bucket.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "lab/figures/figure.h"
#include "lab/figures/straggling_systems.h"
#include "lab/run.h"
#include "lab/training/virtual_training.h"

namespace tributary::lab {
namespace {

struct PaperModel {
  Model model;
  double speedup;  ///< Of the time to 90 % top-5 accuracy. Source: Trio paper §6.2.
};
constexpr std::array<PaperModel, 3> kModels{
    {{Model::kResnet50, 1.56}, {Model::kDensenet161, 1.56}, {Model::kVgg11, 1.60}}};

constexpr double kProbability = 0.16;
/// Source: Trio paper §6.2, for its networks. The small model reaches it too.
constexpr double kTarget = 0.90;
/// More than the target needs.
constexpr uint32_t kIterations = 220;
/// A target that the model reaches within the quick iterations.
constexpr double kTargetQuick = 0.30;
constexpr uint32_t kIterationsQuick = 24;

double target(const FigureOptions& options) { return options.quick ? kTargetQuick : kTarget; }

Result<PointOutcome> train(const Scenario& scenario) {
  VirtualTraining training({.workers = scenario.workers, .seed = scenario.seed});
  Result<RunResult> result = run_scenario(scenario, &training);
  if (!result) return tl::unexpected(result.error());
  if (training.failed() != 0) {
    return failure(fmt::format("{} all-reduces of the trained model failed", training.failed()));
  }
  if (!training.parameters_identical()) {
    return failure("workers that applied the same sums have different parameters");
  }
  PointOutcome outcome{.result = *std::move(result), .accuracy = {}};
  for (const VirtualTraining::Progress& step : training.progress()) {
    outcome.accuracy.push_back({.at = step.at.since_start(), .accuracy = step.accuracy});
  }
  return outcome;
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  const uint32_t iterations = options.count_of(kIterations, kIterationsQuick);
  std::vector<Result<Point>> made;
  for (const PaperModel& model : kModels) {
    for (const StragglingSystem& system : kStragglingSystems) {
      Scenario scenario = scenario_of(system, model.model, iterations);
      scenario.straggler.pattern = Straggling::kSlowWorker;
      scenario.straggler.probability = kProbability;
      Result<Point> point = figure_point(
          options, fmt::format("{} {}", name_of(model.model), system.name), std::move(scenario));
      if (point) {
        point->extra = "with a trained model, version 1";
        point->run = train;
      }
      made.push_back(std::move(point));
    }
  }
  return all_or_error(std::move(made));
}

std::vector<VirtualTraining::Progress> curve_of(const PointOutcome& outcome) {
  std::vector<VirtualTraining::Progress> curve;
  for (const AccuracyStep& step : outcome.accuracy) {
    curve.push_back({.iteration = static_cast<uint32_t>(curve.size()),
                     .at = Instant(step.at),
                     .accuracy = step.accuracy});
  }
  return curve;
}

/// Returns the time to the target in seconds, or a number that is not finite if the model did not
/// reach it.
double seconds_to(const std::vector<VirtualTraining::Progress>& curve, double target) {
  const Instant at = time_to_accuracy(curve, target);
  return at == Instant::never() ? std::numeric_limits<double>::quiet_NaN()
                                : in_seconds(at.since_start());
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  for (size_t i = 0; i < kModels.size(); i++) {
    const std::string& model = name_of(kModels[i].model);
    std::array<double, kStragglingSystems.size()> times{};
    LinePlot plot{.title = fmt::format("Trio Figure 12: {}, p = 16 %", model),
                  .x_label = "virtual time (s)",
                  .y_label = "top-5 validation accuracy (%)",
                  .series = {},
                  .height_px = 360,
                  .y_from_zero = true};
    for (size_t j = 0; j < kStragglingSystems.size(); j++) {
      const auto curve = curve_of(outcomes[i * kStragglingSystems.size() + j]);
      times[j] = seconds_to(curve, target(options));
      figure.rows.push_back({.figure = "trio-12",
                             .series = fmt::format("{} {}", model, kStragglingSystems[j].name),
                             .x = 100 * target(options),
                             .here = times[j],
                             .unit = "s",
                             .seed = options.seed});
      PlotSeries line{.name = kStragglingSystems[j].name, .points = {}};
      for (const auto& step : curve) {
        line.points.push_back({in_seconds(step.at.since_start()), 100 * step.accuracy});
      }
      plot.series.push_back(std::move(line));
    }
    figure.rows.push_back({.figure = "trio-12",
                           .series = fmt::format("{} speed-up resending", model),
                           .x = 100 * target(options),
                           .here = times[kSwitchmlResending] / times[kTrio],
                           .unit = "x",
                           .seed = options.seed});
    figure.rows.push_back({.figure = "trio-12",
                           .series = fmt::format("{} speed-up", model),
                           .x = 100 * target(options),
                           .paper = kModels[i].speedup,
                           .here = times[kSwitchml] / times[kTrio],
                           .unit = "x",
                           .seed = options.seed});
    figure.plots.push_back(std::move(plot));
  }
  figure.notes = {
      "What is trained is a small language model (24,896 parameters) on generated text; the paper "
      "trains the networks themselves on ImageNet. Iteration times and partial sums are those of "
      "the network's traffic.",
      "With --quick the target is lower than the paper's, so the ratio says little."};
  if (!options.quick) figure.notes.pop_back();
  return figure;
}

}  // namespace

Figure trio_12() {
  return {.name = "trio-12",
          .description = "time to accuracy with p = 16 %, a real model in virtual time",
          .x_name = "accuracy_percent",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
