// SPDX-License-Identifier: Apache-2.0
// Figure 13 of the Trio paper: time of a training iteration over the straggling probability, for
// three networks: Trio-ML, SwitchML, a switch that waits for all workers, and no stragglers (§6.2).
#include <fmt/format.h>

#include <array>

#include "lab/figures/figure.h"
#include "lab/figures/straggling_systems.h"

namespace tributary::lab {
namespace {

struct PaperModel {
  Model model;
  double speedup;  ///< At p = 16 %. Source: Trio paper §6.2.
};
constexpr std::array<PaperModel, 3> kModels{
    {{Model::kResnet50, 1.72}, {Model::kDensenet161, 1.75}, {Model::kVgg11, 1.80}}};
constexpr std::array<uint32_t, 6> kPercents{0, 2, 4, 8, 12, 16};
constexpr std::array<uint32_t, 2> kPercentsQuick{0, 16};
constexpr uint32_t kPaperPercent = 16;
constexpr uint32_t kIterations = 100;  ///< Source: Trio paper §6.2.
constexpr uint32_t kIterationsQuick = 4;

constexpr StragglingSystem kIdeal{"ideal", Backend::kIdeal, Topology::kStar, false};

std::span<const uint32_t> percents(const FigureOptions& options) {
  if (options.quick) return kPercentsQuick;
  return kPercents;
}

Result<Point> make_point(const FigureOptions& options, Model model, const StragglingSystem& system,
                         uint32_t percent) {
  Scenario scenario = scenario_of(system, model, options.count_of(kIterations, kIterationsQuick));
  scenario.straggler.pattern = percent == 0 ? Straggling::kNone : Straggling::kSlowWorker;
  scenario.straggler.probability = percent / 100.0;
  return figure_point(options, fmt::format("{} {} p={}%", name_of(model), system.name, percent),
                      std::move(scenario));
}

/// For each model: the ideal, then each system at each probability.
Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const PaperModel& model : kModels) {
    made.push_back(make_point(options, model.model, kIdeal, 0));
    for (const uint32_t percent : percents(options)) {
      for (const StragglingSystem& system : kStragglingSystems) {
        made.push_back(make_point(options, model.model, system, percent));
      }
    }
  }
  return all_or_error(std::move(made));
}

/// Makes one model's rows and plot from its outcomes.
class ModelRows {
 public:
  ModelRows(const FigureOptions& options, const PaperModel& model,
            std::span<const PointOutcome> outcomes, FigureOutcome& figure)
      : options_(options), model_(model), outcomes_(outcomes), figure_(figure) {}

  void add() {
    const double ideal_ms = iteration_ms(0);
    PlotSeries ideal{.name = "ideal", .points = {}};
    std::vector<PlotSeries> systems;
    for (const StragglingSystem& system : kStragglingSystems) {
      systems.push_back({.name = system.name, .points = {}});
    }
    for (size_t i = 0; i < percents(options_).size(); i++) {
      const double percent = percents(options_)[i];
      std::array<double, kStragglingSystems.size()> ms{};
      add_row("ideal", percent, ideal_ms, "ms");
      ideal.points.push_back({percent, ideal_ms});
      for (size_t j = 0; j < ms.size(); j++) {
        ms[j] = iteration_ms(1 + i * ms.size() + j);
        add_row(kStragglingSystems[j].name, percent, ms[j], "ms");
        systems[j].points.push_back({percent, ms[j]});
      }
      add_row("speed-up resending", percent, ms[kSwitchmlResending] / ms[kTrio], "x");
      add_row("speed-up", percent, ms[kSwitchml] / ms[kTrio], "x");
      if (percents(options_)[i] == kPaperPercent) figure_.rows.back().paper = model_.speedup;
    }
    systems.insert(systems.begin(), ideal);
    figure_.plots.push_back({.title = fmt::format("Trio Figure 13: {}", name_of(model_.model)),
                             .x_label = "straggling probability p (%)",
                             .y_label = "mean iteration (ms)",
                             .series = systems,
                             .height_px = 360,
                             .y_from_zero = true});
  }

 private:
  double iteration_ms(size_t index) const { return as_ms(outcomes_[index].result.mean_iteration); }
  void add_row(const std::string& series, double percent, double here, const std::string& unit) {
    figure_.rows.push_back({.figure = "trio-13",
                            .series = fmt::format("{} {}", name_of(model_.model), series),
                            .x = percent,
                            .here = here,
                            .unit = unit,
                            .seed = options_.seed});
  }

  const FigureOptions& options_;
  const PaperModel& model_;
  const std::span<const PointOutcome> outcomes_;
  FigureOutcome& figure_;
};

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  const size_t of_model = points.size() / kModels.size();
  for (size_t i = 0; i < kModels.size(); i++) {
    ModelRows(options, kModels[i], outcomes.subspan(i * of_model, of_model), figure).add();
  }
  figure.notes = {
      "speed-up: time of SwitchML-256 over time of Trio-ML, with the same seed; as in the "
      "paper's set-up SwitchML does not retransmit, \"resending\" does after 1 ms.",
      "The paper states only the speed-ups at 16 % in its text."};
  return figure;
}

}  // namespace

Figure trio_13() {
  return {.name = "trio-13",
          .description = "iteration time over the straggling probability, three networks",
          .x_name = "p_percent",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
