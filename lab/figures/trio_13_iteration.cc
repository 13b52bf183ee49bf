// SPDX-License-Identifier: Apache-2.0
// The speed-up of Figure 13 of the Trio paper (§6.2) over the iteration time: the traffic of
// ResNet50, with computation from short to long. Timeouts cost less of a long iteration.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/figures/repetition.h"
#include "lab/figures/share_plot.h"
#include "lab/figures/straggling_systems.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "trio-13-iteration";

// Source: Trio paper §6.2.
constexpr double kPaperFigure12 = 1.56;
constexpr double kPaperFigure13 = 1.72;

constexpr std::array<uint32_t, 6> kComputationMs{50, 100, 200, 400, 700, 1000};
constexpr std::array<uint32_t, 2> kComputationMsQuick{50, 700};
/// Fewer than the paper's 100: the cost of a run grows with its virtual time.
constexpr uint32_t kIterations = 30;
constexpr uint32_t kIterationsQuick = 6;

/// A waiting switch takes as long as SwitchML (see trio-13), but its run needs a tenth of the work.
constexpr std::array<StragglingSystem, 3> kSystems{
    kStragglingSystems[kWaiting], kStragglingSystems[kTrioSkip], kStragglingSystems[kTrioCompute]};

std::span<const uint32_t> computations(const FigureOptions& options) {
  if (options.quick) return kComputationMsQuick;
  return kComputationMs;
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  const uint32_t iterations = options.count_of(kIterations, kIterationsQuick);
  const auto scenario = [&](const StragglingSystem& system, uint32_t ms) {
    Scenario made_scenario = scenario_of(system, Model::kResnet50, iterations);
    set_computation(made_scenario, ms);
    return made_scenario;
  };
  for (const uint32_t ms : computations(options)) {
    add_point(made, options, fmt::format("ideal, {} ms", ms), scenario(kIdealSystem, ms));
    for (const StragglingSystem& system : kSystems) {
      Scenario straggling = scenario(system, ms);
      straggling.straggler.pattern = Straggling::kSlowWorker;
      straggling.straggler.probability = kPaperProbability;
      add_cell(made, options, fmt::format("{}, {} ms", system.name, ms), straggling, 0);
    }
  }
  return all_or_error(std::move(made));
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  CellReader cells(options, outcomes);
  std::vector<PlotSeries> lines{
      {.name = "free mitigation", .points = {}, .band = true},
      {.name = "trio-ml skip", .points = {}, .band = true},
      {.name = "trio-ml compute", .points = {}, .band = true},
      {.name = "paper, Figure 12 (1.56)", .points = {}, .reference = true},
      {.name = "paper, Figure 13 (1.72)", .points = {}, .reference = true}};
  constexpr const char* kXLabel = "iteration without stragglers (ms)";
  SharePlot shares("Sums without every worker, p = 16 %, traffic of ResNet50", kXLabel);
  for (size_t i = 0; i < computations(options).size(); i++) {
    const Cell ideal = cells.next_point();
    const Cell waiting = cells.next();
    const Cell skip = cells.next();
    const Cell compute = cells.next();
    const double x = iteration_ms(ideal[0]);
    const auto add = [&](size_t line, const char* series, Cell under) {
      const Sample sample = ratio_over(waiting, under, iteration_ms);
      figure.rows.push_back(sample_row(options, kName, series, x, sample, "x"));
      figure.rows.back().shares = shares_over(under);
      lines[line].points.push_back(sample_point(x, sample));
    };
    add(0, "speed-up of free mitigation", ideal);
    add(1, "speed-up skip", skip);
    add(2, "speed-up compute", compute);
    shares.add("trio-ml skip", x, shares_over(skip));
    shares.add("trio-ml compute", x, shares_over(compute));
    lines[3].points.push_back({x, kPaperFigure12});
    lines[4].points.push_back({x, kPaperFigure13});
  }
  figure.plots.push_back({.title = "Speed-up over waiting, p = 16 %, traffic of ResNet50",
                          .x_label = kXLabel,
                          .y_label = "speed-up",
                          .series = std::move(lines),
                          .height_px = 400});
  figure.plots.push_back(shares.plot());
  figure.notes = {fmt::format("The baseline is a switch that waits. {}; bands: standard error.",
                              seeds_text(options))};
  add_dropout_note(figure);
  return figure;
}

}  // namespace

Figure trio_13_iteration() {
  return {.name = kName,
          .description = "speed-up at p = 16 % over the iteration time, beside the paper's values",
          .x_name = "iteration_ms",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
