// SPDX-License-Identifier: Apache-2.0
// The speed-up of Figure 13 of the Trio paper (§6.2) under other readings and settings: the
// sleeper fixed or drawn at each point, the window, the timeout, permanent stragglers, and all
// favourable ones together. ResNet50, p = 16 %.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/figures/repetition.h"
#include "lab/figures/straggling_systems.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "trio-13-settings";
constexpr uint32_t kIterations = 30;
constexpr uint32_t kIterationsQuick = 4;

constexpr uint32_t kWindow = 4096;  ///< Figure 13's.
/// Shorter than Figure 13's: with those, the bursts of a larger window overflow a PFE's packet
/// buffer.
constexpr uint32_t kTrainOfLargeWindow = 64;

/// A setting that differs from Figure 13's.
struct Variation {
  const char* name;
  uint32_t timeout_ms = 10;
  uint32_t window = kWindow;
  Straggling pattern = Straggling::kSlowWorker;
  Duration permanent_after = kNeverPermanent;
  uint32_t computation_ms = 0;  ///< 0: ResNet50's own.
};
/// Source of the window: the Trio paper's header allows 65,535 blocks in flight (§5).
constexpr std::array<Variation, 10> kVariations{
    {{.name = "as in trio-13"},
     {.name = "the same sleeper always", .pattern = Straggling::kSlowWorkerFixed},
     {.name = "window 65,536", .window = 65'536},
     {.name = "timeout 1 ms", .timeout_ms = 1},
     {.name = "timeout 2 ms", .timeout_ms = 2},
     {.name = "timeout 5 ms", .timeout_ms = 5},
     {.name = "timeout 20 ms", .timeout_ms = 20},
     {.name = "permanent after 1 s", .permanent_after = seconds(1)},
     {.name = "permanent after 50 ms", .permanent_after = milliseconds(50)},
     {.name = "same sleeper, window 65,536, 700 ms of computation",
      .window = 65'536,
      .pattern = Straggling::kSlowWorkerFixed,
      .computation_ms = 700}}};
constexpr std::array<StragglingSystem, 3> kSystems{
    kStragglingSystems[kWaiting], kStragglingSystems[kTrioSkip], kStragglingSystems[kTrioCompute]};

Scenario scenario_with(const Variation& variation, const StragglingSystem& system,
                       uint32_t iterations) {
  Scenario scenario = scenario_of(system, Model::kResnet50, iterations);
  scenario.straggler.pattern = variation.pattern;
  scenario.straggler.probability = kPaperProbability;
  scenario.window = variation.window;
  // The results kept reach equally far back.
  scenario.mitigation.history = scenario.mitigation.history * kWindow / variation.window;
  // A worker that skips asks for a whole window of results at once, which overflows the output
  // queue (Scenario::link) if it has 65,536 packets. It must ask again.
  if (variation.window > kWindow) {
    scenario.host.retransmission = system.backend == Backend::kTrioMl;
    scenario.train = kTrainOfLargeWindow;
  }
  scenario.mitigation.timeout = milliseconds(variation.timeout_ms);
  scenario.mitigation.permanent_after = variation.permanent_after;
  if (variation.computation_ms != 0) set_computation(scenario, variation.computation_ms);
  return scenario;
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  const uint32_t iterations = options.count_of(kIterations, kIterationsQuick);
  for (const Variation& variation : kVariations) {
    for (const StragglingSystem& system : kSystems) {
      add_cell(made, options, fmt::format("{}: {}", variation.name, system.name),
               scenario_with(variation, system, iterations), 0);
    }
  }
  return all_or_error(std::move(made));
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  CellReader cells(options, outcomes);
  for (const Variation& variation : kVariations) {
    const Cell waiting = cells.next();
    const auto add = [&](const char* series, Cell cell, const Sample& sample, const char* unit) {
      figure.rows.push_back(sample_row(options, kName,
                                       fmt::format("{}: {}", variation.name, series),
                                       100 * kPaperProbability, sample, unit));
      figure.rows.back().shares = shares_over(cell);
    };
    add("waiting", waiting, sample_over(waiting, iteration_ms), "ms");
    for (const char* system : {"skip", "compute"}) {
      const Cell trio = cells.next();
      add(fmt::format("trio-ml {}", system).c_str(), trio, sample_over(trio, iteration_ms), "ms");
      add(fmt::format("speed-up {}", system).c_str(), trio, ratio_over(waiting, trio, iteration_ms),
          "x");
    }
  }
  figure.notes = {
      fmt::format("The baseline is a switch that waits, with the same stragglers. "
                  "{}.",
                  seeds_text(options))};
  add_dropout_note(figure);
  return figure;
}

}  // namespace

Figure trio_13_settings() {
  return {.name = kName,
          .description = "speed-up of ResNet50 at p = 16 % under other readings and settings",
          .x_name = "p_percent",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
