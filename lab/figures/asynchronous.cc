// SPDX-License-Identifier: Apache-2.0
// Time to accuracy with stragglers: synchronous training that waits, Trio-ML's mitigation, and
// asynchronous training (BytePS paper §5). The BytePS paper has no such figure.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/figures/repetition.h"
#include "lab/figures/share_plot.h"
#include "lab/figures/trained_run.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "async";
constexpr uint32_t kWorkers = 6;

struct System {
  const char* name;
  Backend backend;
};
constexpr std::array<System, 3> kSystems{{{"waiting", Backend::kTrioMlWait},
                                          {"trio-ml", Backend::kTrioMl},
                                          {"asynchronous", Backend::kAsynchronous}}};

struct Pattern {
  const char* name;
  Straggling straggling;
  double probability;
  double factor;
};
/// Source of 16 %: Trio paper §6.2. Assumed: half of the speed, which is common among the fail-slow
/// machines that studies report.
constexpr std::array<Pattern, 3> kPatterns{{{"no straggler", Straggling::kNone, 0, 1},
                                            {"sleeping, 16 %", Straggling::kSlowWorker, 0.16, 1},
                                            {"one at half speed", Straggling::kFailSlow, 0, 2}}};

double target(const FigureOptions& options) {
  return options.quick ? kTargetAccuracyQuick : kTargetAccuracy;
}

Scenario cluster(const System& system, const Pattern& pattern, uint32_t iterations) {
  Scenario scenario = small_model_cluster(system.backend, kWorkers, iterations);
  scenario.mitigation.catch_up = CatchUp::kCompute;
  scenario.straggler.pattern = pattern.straggling;
  scenario.straggler.probability = pattern.probability;
  scenario.straggler.factor = pattern.factor;
  scenario.straggler.worker = kWorkers - 1;
  return scenario;
}

Result<PointOutcome> train(const Scenario& scenario) {
  const bool asynchronous = scenario.backend == Backend::kAsynchronous;
  return train_small_model(scenario, asynchronous ? kAsynchronousRate : kSynchronousRate);
}

/// A cell for each pattern and system. Its seeds change text, model and stragglers.
Result<std::vector<Point>> points(const FigureOptions& options) {
  const uint32_t iterations = options.count_of(kTrainedIterations, kTrainedIterationsQuick);
  std::vector<Result<Point>> made;
  for (const Pattern& pattern : kPatterns) {
    for (const System& system : kSystems) {
      add_cell(made, options, fmt::format("{}, {}", pattern.name, system.name),
               cluster(system, pattern, iterations), 0, [](Point& point) {
                 point.extra = training_name();
                 point.run = train;
               });
    }
  }
  return all_or_error(std::move(made));
}

double degraded_percent(const PointOutcome& outcome, double /*target*/) {
  return value_of(outcome, [](const RunResult& run) { return 100 * run.degraded_fraction(); });
}
double staleness_mean(const PointOutcome& outcome, double /*target*/) {
  return value_of(outcome, [](const RunResult& run) { return run.staleness_mean(); });
}
double staleness_most(const PointOutcome& outcome, double /*target*/) {
  return value_of(outcome, [](const RunResult& run) { return run.staleness().pushes_max; });
}
double iteration_mean(const PointOutcome& outcome, double /*target*/) {
  return iteration_ms(outcome);
}

struct Measure {
  const char* name;
  const char* unit;
  double (*value)(const PointOutcome&, double);
  bool (*applies)(Backend);
};
constexpr std::array<Measure, 5> kMeasures{
    {{"time to accuracy", "s", seconds_to, [](Backend) { return true; }},
     {"iteration", "ms", iteration_mean, [](Backend) { return true; }},
     {"degraded", "%", degraded_percent, [](Backend b) { return b == Backend::kTrioMl; }},
     {"staleness", "pushes", staleness_mean, [](Backend b) { return b == Backend::kAsynchronous; }},
     {"largest staleness", "pushes", staleness_most,
      [](Backend b) { return b == Backend::kAsynchronous; }}}};

LinePlot plot_of(const Pattern& pattern) {
  return {.title = fmt::format("Time to accuracy: {}", pattern.name),
          .x_label = "virtual time (s)",
          .y_label = "top-5 validation accuracy (%)",
          .series = {},
          .height_px = 360,
          .y_from_zero = true};
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  CellReader cells(options, outcomes);
  std::string names;
  for (size_t i = 0; i < kPatterns.size(); i++) {
    names += fmt::format("{}{}: {}", i == 0 ? "" : ", ", i, kPatterns[i].name);
  }
  SharePlot shares("Sums without every worker", names);
  double pattern_number = 0;
  for (const Pattern& pattern : kPatterns) {
    LinePlot plot = plot_of(pattern);
    for (const System& system : kSystems) {
      const Cell cell = cells.next();
      for (const Measure& measure : kMeasures) {
        if (!measure.applies(system.backend)) continue;
        const Sample sample = sample_over(cell, [&](const PointOutcome& outcome) {
          return measure.value(outcome, target(options));
        });
        figure.rows.push_back(sample_row(
            options, kName, fmt::format("{}, {}: {}", pattern.name, system.name, measure.name),
            100 * target(options), sample, measure.unit));
        figure.rows.back().shares = shares_over(cell);
      }
      plot.series.push_back(accuracy_line(system.name, cell[0]));
      shares.add(system.name, pattern_number, shares_over(cell));
    }
    pattern_number++;
    figure.plots.push_back(std::move(plot));
  }
  figure.plots.push_back(shares.plot());
  // The patterns are no scale: a line between them would say nothing.
  for (PlotSeries& series : figure.plots.back().series) series.marks_only = true;
  figure.notes = {
      fmt::format("{}; the plots of accuracy show the first.", seeds_text(options)),
      "waiting and trio-ml run on the modelled PFE; asynchronous runs on the live engine in "
      "virtual "
      "time. Six workers compute 45 ms an iteration and send 100 KB at 100 Mbit/s."};
  return figure;
}

}  // namespace

Figure asynchronous() {
  return {.name = kName,
          .description = "time to accuracy with stragglers: waiting, Trio-ML, asynchronous",
          .x_name = "accuracy_percent",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
