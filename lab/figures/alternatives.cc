// SPDX-License-Identifier: Apache-2.0
// Trio-ML beside other answers to stragglers, in the same cluster with the same stragglers:
// waiting, backup workers, a quorum, local SGD, bounded timeouts, and asynchronous training. No
// paper has this figure.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/figures/repetition.h"
#include "lab/figures/share_plot.h"
#include "lab/figures/straggling_systems.h"
#include "lab/figures/trained_run.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "alternatives";
constexpr uint32_t kWorkers = 6;
/// All systems are compared at this time too. Waiting reaches the target at it without stragglers.
constexpr Duration kTimeBound = seconds(6);
constexpr Duration kTimeBoundQuick = milliseconds(1500);
/// Timeout of OptiReduce's first all-reduce stage. Source: OptiReduce takes the 95th percentile of
/// its warm-up iterations. Without stragglers the last contribution of a block comes between 8 and
/// 9 ms after the first, in all iterations alike.
constexpr Duration kStageTimeout = milliseconds(9);

/// Learning rate of local SGD's optimiser; chosen like the others (trained_run.h).
constexpr float kLocalRate = 0.04F;

struct System {
  const char* name;
  Backend backend;
  float rate = kSynchronousRate;
  uint32_t workers = kWorkers;
  uint32_t quorum = 0;
  uint32_t local_steps = 1;
};
constexpr std::array<System, 8> kSystems{
    {{.name = "waiting", .backend = Backend::kWaitingSwitch},
     {.name = "ring", .backend = Backend::kRing},
     {.name = "trio-ml", .backend = Backend::kTrioMl},
     // Source: Chen et al., "Revisiting Distributed Synchronous SGD", 2016: N + b workers, of which
     // the first N count. Here b = 1.
     {.name = "backup worker",
      .backend = Backend::kWaitingSwitch,
      .workers = kWorkers + 1,
      .quorum = kWorkers},
     // Source: Li et al., "Taming Unbalanced Training Workloads …" (Eager-SGD), PPoPP 2020.
     {.name = "majority", .backend = Backend::kWaitingSwitch, .quorum = kWorkers / 2 + 1},
     {.name = "local SGD",
      .backend = Backend::kWaitingSwitch,
      .rate = kLocalRate,
      .local_steps = 4},
     // Source: OptiReduce, NSDI 2025.
     {.name = "bounded timeouts", .backend = Backend::kOptireduce},
     {.name = "asynchronous", .backend = Backend::kAsynchronous, .rate = kAsynchronousRate}}};
/// In percent of the delay points; 16: kPaperProbability.
constexpr std::array<double, 2> kStragglingPercents{0, 100 * kPaperProbability};

double target(const FigureOptions& options) {
  return options.quick ? kTargetAccuracyQuick : kTargetAccuracy;
}
Duration time_bound(const FigureOptions& options) {
  return options.quick ? kTimeBoundQuick : kTimeBound;
}

Scenario scenario_of(const System& system, double percent, uint32_t iterations) {
  Scenario scenario = small_model_cluster(system.backend, system.workers, iterations);
  scenario.model.local_steps = system.local_steps;
  scenario.mitigation.quorum = system.quorum;
  scenario.mitigation.catch_up = CatchUp::kSkip;
  if (system.backend == Backend::kOptireduce) {
    scenario.mitigation.timeout = kStageTimeout;
    // Packets so small that each server gets a part of every tensor (plan/part_cutter.h), and a
    // window that has the whole tensor in flight: a timeout of its blocks is one of the stage.
    scenario.gradients = 128;
    scenario.window = 256;
  }
  if (percent > 0) scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = percent / 100;
  return scenario;
}

/// A cell for each share of stragglers and system. Its seeds change text, model and stragglers.
Result<std::vector<Point>> points(const FigureOptions& options) {
  const uint32_t iterations = options.count_of(kTrainedIterations, kTrainedIterationsQuick);
  std::vector<Result<Point>> made;
  for (const double percent : kStragglingPercents) {
    for (const System& system : kSystems) {
      add_cell(made, options, fmt::format("{} % straggling, {}", percent, system.name),
               scenario_of(system, percent, iterations), 0, [&system](Point& point) {
                 point.extra = training_name(fmt::format("rate {}", system.rate));
                 point.run = [rate = system.rate](const Scenario& scenario) {
                   return train_small_model(scenario, rate);
                 };
               });
    }
  }
  return all_or_error(std::move(made));
}

/// Returns the mean share of the workers whose contributions are in a sum.
double counted_percent(const PointOutcome& outcome) {
  return value_of(outcome, [](const RunResult& run) {
    uint64_t counted = 0;
    for (const WorkerResult& worker : run.workers) {
      counted += worker.contributions - worker.contributions_lost;
    }
    return 100 * run.of_blocks(counted);
  });
}

LinePlot plot_of(double percent) {
  return {.title = fmt::format("Alternatives: {} % straggling", percent),
          .x_label = "virtual time (s)",
          .y_label = "top-5 validation accuracy (%)",
          .series = {},
          .height_px = 360,
          .y_from_zero = true};
}

/// Adds the rows of one cell: its times, its accuracy, and with them the shares of its sums.
void add_rows(FigureOutcome& figure, const FigureOptions& options, const System& system,
              double percent, Cell cell) {
  const auto add = [&](const char* measure, const char* unit, const CellValue& value) {
    figure.rows.push_back(sample_row(options, kName, fmt::format("{}: {}", system.name, measure),
                                     percent, sample_over(cell, value), unit));
    figure.rows.back().shares = shares_over(cell);
  };
  add("iteration", "ms", iteration_ms);
  add("time to accuracy", "s",
      [&](const PointOutcome& outcome) { return seconds_to(outcome, target(options)); });
  add("accuracy at equal time", "%",
      [&](const PointOutcome& outcome) { return accuracy_by(outcome, time_bound(options)); });
  add("contributions counted", "%", counted_percent);
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  CellReader cells(options, outcomes);
  SharePlot shares("Alternatives: sums without every worker", "delay points that delay (%)");
  for (const double percent : kStragglingPercents) {
    LinePlot plot = plot_of(percent);
    for (const System& system : kSystems) {
      const Cell cell = cells.next();
      shares.add(system.name, percent, shares_over(cell));
      add_rows(figure, options, system, percent, cell);
      plot.series.push_back(accuracy_line(system.name, cell[0]));
    }
    figure.plots.push_back(std::move(plot));
  }
  figure.plots.push_back(shares.plot());
  figure.notes = {
      fmt::format("{}; the plots of accuracy show the first.", seeds_text(options)),
      fmt::format("Time to an accuracy of {:.0f} %; accuracy after {} s. Workers compute 45 ms an "
                  "iteration and send 100 KB at 100 Mbit/s.",
                  100 * target(options), in_seconds(time_bound(options))),
      "A worker that the others have left behind skips what they have completed. With a quorum "
      "every "
      "sum is degraded: it lacks a worker."};
  add_dropout_note(figure);
  return figure;
}

}  // namespace

Figure alternatives() {
  return {.name = kName,
          .description = "time and accuracy with stragglers: Trio-ML beside seven alternatives",
          .x_name = "straggling_percent",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
