// SPDX-License-Identifier: Apache-2.0
// The time of each iteration around a worker's long pause: with partial sums alone, and where the
// aggregator excludes a worker that is silent for long (Trio paper §5, "permanent stragglers"). The
// paper describes it without a figure.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "lab/figures/repetition.h"
#include "lab/figures/straggling_systems.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "permanent";
constexpr uint32_t kIterations = 30;
constexpr uint32_t kIterationsQuick = 18;
constexpr uint32_t kTrainQuick = 256;
/// Assumed: ten iterations. The results of so many are kept (MitigationSettings::history).
constexpr Duration kPauseAt = milliseconds(300);
constexpr Duration kPauseFor = milliseconds(700);
/// Assumed: two iterations of ResNet50.
constexpr Duration kPermanentAfter = milliseconds(150);

struct Variation {
  const char* name;
  StragglingSystem system;
  Duration permanent_after = kNeverPermanent;
};
constexpr std::array<Variation, 5> kVariations{
    {{"waiting-switch", kStragglingSystems[kWaiting]},
     {"trio-ml skip", kStragglingSystems[kTrioSkip]},
     {"trio-ml skip, excluded", kStragglingSystems[kTrioSkip], kPermanentAfter},
     {"trio-ml compute", kStragglingSystems[kTrioCompute]},
     {"trio-ml compute, excluded", kStragglingSystems[kTrioCompute], kPermanentAfter}}};

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const Variation& variation : kVariations) {
    Scenario scenario = scenario_of(variation.system, Model::kResnet50,
                                    options.count_of(kIterations, kIterationsQuick));
    scenario.straggler.pattern = Straggling::kPause;
    scenario.straggler.pause_at = kPauseAt;
    scenario.straggler.pause_for = kPauseFor;
    scenario.mitigation.permanent_after = variation.permanent_after;
    if (options.quick) scenario.train = kTrainQuick;
    made.push_back(figure_point(options, variation.name, std::move(scenario)));
  }
  return all_or_error(std::move(made));
}

/// The parts of a run: iterations that end during the pause, the one that it ends in, and those
/// that begin later.
enum class Part : uint8_t { kDuring, kAcross, kAfter };

/// Returns the mean, in ms, of the iterations in this part; NaN if there are none.
double mean_ms(const RunResult& result, const StragglerSettings& straggler, Part wanted) {
  const Duration pause_end = straggler.pause_at + straggler.pause_for;
  Duration end;
  Duration sum;
  uint32_t count = 0;
  for (const Duration iteration : result.iterations) {
    const Duration begin = end;
    end += iteration;
    if (end < straggler.pause_at) continue;
    const Part part = end <= pause_end     ? Part::kDuring
                      : begin >= pause_end ? Part::kAfter
                                           : Part::kAcross;
    if (part != wanted) continue;
    sum += iteration;
    count++;
  }
  return as_ms(sum) / count;
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  const StragglerSettings& straggler = points.front().scenario.straggler;  // The same in all.
  LinePlot plot{
      .title = fmt::format("A worker stands still for {:.0f} ms", as_ms(straggler.pause_for)),
      .x_label = "time at the iteration's end (ms)",
      .y_label = "iteration (ms)",
      .series = {},
      .y_from_zero = true};
  for (size_t i = 0; i < kVariations.size(); i++) {
    const RunResult& result = outcomes[i].result;
    PlotSeries line{.name = kVariations[i].name, .points = {}};
    Duration end;
    for (const Duration iteration : result.iterations) {
      end += iteration;
      line.points.push_back({as_ms(end), as_ms(iteration)});
      figure.rows.push_back(figure_row(options, kName,
                                       fmt::format("{}: iteration", kVariations[i].name),
                                       as_ms(end), as_ms(iteration), "ms"));
    }
    const auto add = [&](const char* series, double ms) {
      figure.rows.push_back(figure_row(options, kName,
                                       fmt::format("{}: {}", kVariations[i].name, series),
                                       as_ms(end), ms, "ms"));
    };
    add("while it stands still", mean_ms(result, straggler, Part::kDuring));
    add("as it goes on", mean_ms(result, straggler, Part::kAcross));
    add("afterwards", mean_ms(result, straggler, Part::kAfter));
    add("all", result.iterations.empty() ? NAN : as_ms(end));
    figure.rows.back().shares = shares_over(outcomes.subspan(i, 1));
    plot.series.push_back(std::move(line));
  }
  figure.plots = {std::move(plot)};
  figure.notes = {fmt::format(
      "ResNet50, six workers on two PFEs. Worker 0 stands still from {:.0f} ms on for "
      "{:.0f} ms. \"excluded\": blocks do not wait for a worker that has been silent "
      "for {:.0f} ms, until it contributes. Means over the iterations that end while it stands "
      "still, the iteration in which it goes on, and means over later ones; all: time of all "
      "iterations.",
      as_ms(straggler.pause_at), as_ms(straggler.pause_for), as_ms(kPermanentAfter))};
  add_dropout_note(figure);
  return figure;
}

}  // namespace

Figure permanent() {
  return {.name = kName,
          .description = "iterations around a worker's long pause, with and without its exclusion",
          .x_name = "end_ms",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
