// SPDX-License-Identifier: Apache-2.0
// Figure 12 of the Trio paper: accuracy over time with p = 16 %, for three networks (§6.2). Trio-ML
// against SwitchML. Traffic and times are the networks' own. The workers train a small real model,
// whose gradients travel as each iteration's last bucket.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/figures/repetition.h"
#include "lab/figures/straggling_systems.h"
#include "lab/figures/trained_run.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "trio-12";

struct PaperModel {
  Model model;
  double speedup;                    ///< Speed-up to 90 % top-5 accuracy. Source: Trio paper §6.2.
  const FavourableSetting& setting;  ///< The setting that would meet the paper's value.
};
constexpr std::array<PaperModel, 3> kModels{{{Model::kResnet50, 1.56, kFavourableSettings[0]},
                                             {Model::kDensenet161, 1.56, kFavourableSettings[0]},
                                             {Model::kVgg11, 1.60, kFavourableSettings[1]}}};
/// The systems that train: the one that waits first, then Trio-ML. A switch that waits takes as
/// long as SwitchML (see trio-13), with less work.
using Trained = std::array<uint32_t, 3>;
constexpr Trained kSystemsOfRedrawn{kSwitchml, kTrioSkip, kTrioCompute};
constexpr Trained kSystemsOfSameSleeper{kWaiting, kTrioSkip, kTrioCompute};

const Trained& systems_of(const StragglerReading& reading) {
  if (reading.pattern == Straggling::kSlowWorkerFixed) return kSystemsOfSameSleeper;
  return kSystemsOfRedrawn;
}

/// Source: Trio paper §6.2, for its networks. The small model reaches it too.
constexpr double kTarget = 0.90;
/// More than the target needs, also with partial sums. A run ends soon after its target.
constexpr uint32_t kIterations = 300;
/// A target that the model reaches within the quick iterations.
constexpr double kTargetQuick = 0.30;
constexpr uint32_t kIterationsQuick = 24;

double target(const FigureOptions& options) { return options.quick ? kTargetQuick : kTarget; }

/// Number of seeds of the favourable settings, whose runs are the longest.
constexpr uint32_t kSettingSeeds = 5;

bool has_setting(const FigureOptions& options) { return !options.quick; }

void set_training(Point& point, double target) {
  point.extra = training_name(fmt::format("to {}", target));
  point.run = [target](const Scenario& scenario) {
    return run_training(scenario,
                        {.workers = scenario.workers, .seed = scenario.seed, .target = target});
  };
}

/// For each model: at each reading its systems; then the systems in the favourable setting, if it
/// is there.
Result<std::vector<Point>> points(const FigureOptions& options) {
  const uint32_t iterations = options.count_of(kIterations, kIterationsQuick);
  std::vector<Result<Point>> made;
  const auto trains = [&options](Point& point) { set_training(point, target(options)); };
  for (uint32_t block = 0; block < kModels.size(); block++) {
    const Model model = kModels[block].model;
    const auto label = [&](const StragglingSystem& system, const char* suffix) {
      return fmt::format("{} {}{}", name_of(model), system.name, suffix);
    };
    for (const StragglerReading& reading : kStragglerReadings) {
      for (const uint32_t index : systems_of(reading)) {
        const StragglingSystem& system = kStragglingSystems[index];
        Scenario scenario = scenario_of(system, model, iterations);
        scenario.straggler.pattern = reading.pattern;
        scenario.straggler.probability = kPaperProbability;
        add_cell(made, options, label(system, reading.suffix), scenario, block, trains);
      }
    }
    if (!has_setting(options)) continue;
    const FavourableSetting& setting = kModels[block].setting;
    for (const uint32_t index : kSystemsOfSameSleeper) {
      const StragglingSystem& system = kStragglingSystems[index];
      add_cell(made, first_of(options, block, kSettingSeeds),
               fmt::format("{}, {}", label(system, ""), setting.name),
               favourable_scenario(setting, system, model, iterations), 0, trains);
    }
  }
  return all_or_error(std::move(made));
}

/// Makes one model's rows and plot from its cells.
class ModelRows {
 public:
  ModelRows(const FigureOptions& options, uint32_t block, CellReader& cells, FigureOutcome& figure)
      : options_(first_of(options, block)), model_(kModels[block]), figure_(figure) {
    for (size_t i = 0; i < kStragglerReadings.size(); i++) {
      for (const uint32_t index : systems_of(kStragglerReadings[i]))
        readings_[i][index] = cells.next();
    }
    if (has_setting(options)) {
      const FigureOptions few = first_of(options, block, kSettingSeeds);
      for (const uint32_t index : kSystemsOfSameSleeper) setting_[index] = cells.next(few);
    }
    add_plot();
    for (size_t i = 0; i < kStragglerReadings.size(); i++) add_reading(i);
    if (has_setting(options)) add_setting(first_of(options, block, kSettingSeeds));
  }

 private:
  using Systems = std::array<Cell, kStragglingSystems.size()>;

  /// Returns the cell of the system that waits.
  [[nodiscard]] static Cell waiting_of(const Systems& systems) {
    return systems[kSwitchml].empty() ? systems[kWaiting] : systems[kSwitchml];
  }

  [[nodiscard]] Sample speed_up(const Systems& systems, uint32_t trio) const {
    return ratio_over(waiting_of(systems), systems[trio], time_);
  }

  void add_reading(size_t reading) {
    const Systems& systems = readings_[reading];
    const char* suffix = kStragglerReadings[reading].suffix;
    for (const uint32_t index : systems_of(kStragglerReadings[reading])) {
      add_row(options_, fmt::format("{}{}", kStragglingSystems[index].name, suffix), systems[index],
              sample_over(systems[index], time_), "s");
    }
    for (const uint32_t trio : {kTrioSkip, kTrioCompute}) {
      FigureRow& row = add_row(options_, fmt::format("speed-up {}{}", way(trio), suffix),
                               systems[trio], speed_up(systems, trio), "x");
      compare_with_paper(options_, row, model_.speedup, cause_of(systems, trio));
    }
  }

  /// Returns why a speed-up differs from the paper's, and what the favourable setting gives.
  [[nodiscard]] std::string cause_of(const Systems& systems, uint32_t trio) const {
    std::vector<SettingValue> settings;
    if (has_setting(options_)) {
      settings.push_back(
          value_with(model_.setting, speed_up(setting_, trio), shares_over(setting_[trio])));
    }
    return cause_with_settings(
        fmt::format("{} {}, each window waits for a timeout (trio-13).", factors_of(systems, trio),
                    when_timeouts(kStragglingSystems[trio].catch_up, shares_over(systems[trio]),
                                  kPaperProbability)),
        model_.speedup, settings);
  }

  /// Returns the two factors of a speed-up, as sentences.
  [[nodiscard]] std::string factors_of(const Systems& systems, uint32_t trio) const {
    const double faster = ratio_over(waiting_of(systems), systems[trio], iteration_ms).mean;
    return fmt::format(
        "Iterations are {:.2f} times as fast as when all wait. With sums that lack a worker, "
        "training needs {:.2f} times as many iterations.",
        faster, faster / speed_up(systems, trio).mean);
  }

  /// @param few The options of its seeds.
  void add_setting(const FigureOptions& few) {
    for (const uint32_t trio : {kTrioSkip, kTrioCompute}) {
      FigureRow& row = add_row(few, fmt::format("speed-up {}, {}", way(trio), model_.setting.name),
                               setting_[trio], speed_up(setting_, trio), "x");
      if (!model_.setting.is_papers()) continue;
      compare_with_paper(few, row, model_.speedup,
                         fmt::format("{} {}", factors_of(setting_, trio),
                                     cause_with(model_.setting, row.shares.value())));
    }
  }

  void add_plot() {
    LinePlot plot{.title = fmt::format("Trio Figure 12: {}, p = 16 %", name_of(model_.model)),
                  .x_label = "virtual time (s)",
                  .y_label = "top-5 validation accuracy (%)",
                  .series = {},
                  .height_px = 360,
                  .y_from_zero = true};
    for (size_t i = 0; i < kStragglerReadings.size(); i++) {
      for (const uint32_t index : systems_of(kStragglerReadings[i])) {
        const Cell cell = readings_[i][index];
        std::string line =
            fmt::format("{}{}", kStragglingSystems[index].name, kStragglerReadings[i].suffix);
        if (mitigates(kStragglingSystems[index])) {
          line += fmt::format(" ({:.0f} % of the sums lack a worker)",
                              100 * shares_over(cell).degraded);
        }
        plot.series.push_back(accuracy_line(std::move(line), cell[0]));
      }
    }
    // In the plots' seed.
    plot.series.push_back(
        {.name = fmt::format("paper: {:.2f} times as fast as switchml-256", model_.speedup),
         .points = {{time_(readings_[0][kSwitchml][0]) / model_.speedup, 100 * target(options_)}},
         .marks_only = true});
    figure_.plots.push_back(std::move(plot));
  }

  FigureRow& add_row(const FigureOptions& options, const std::string& series, Cell cell,
                     const Sample& sample, const char* unit) {
    figure_.rows.push_back(sample_row(options, kName,
                                      fmt::format("{} {}", name_of(model_.model), series),
                                      100 * target(options), sample, unit));
    figure_.rows.back().shares = shares_over(cell);
    return figure_.rows.back();
  }

  static const char* way(uint32_t trio) { return trio == kTrioSkip ? "skip" : "compute"; }

  const FigureOptions options_;  ///< Options with the seeds of the network's block.
  const PaperModel& model_;
  FigureOutcome& figure_;
  const CellValue time_ = [this](const PointOutcome& outcome) {
    return seconds_to(outcome, target(options_));
  };
  std::array<Systems, kStragglerReadings.size()> readings_;
  Systems setting_;
};

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  CellReader cells(options, outcomes);
  for (uint32_t block = 0; block < kModels.size(); block++) {
    ModelRows(options, block, cells, figure);
  }
  double error = 0;
  for (const FigureRow& row : figure.rows) {
    if (row.unit == "x" && row.sample) error = std::max(error, row.sample->standard_error);
  }
  figure.notes = {
      "What is trained is a small language model (24,896 parameters) on generated text; the paper "
      "trains the networks themselves on ImageNet. Iteration times and partial sums are those of "
      "the network's traffic.",
      fmt::format("{}; the plots show the first. Speed-ups have a standard error of {} or less.",
                  seeds_text(options), short_number(error)),
      fmt::format("\"same sleeper\": the worker that may sleep is always the same one. This "
                  "reading and the "
                  "settings with 700 ms of computation are compared with a switch that waits, "
                  "which takes as "
                  "long as SwitchML (trio-13). The settings have {} seeds.",
                  seeds_of(first_of(options, 0, kSettingSeeds)))};
  if (options.quick) {
    figure.notes.emplace_back(
        "With --quick the target is lower than the paper's, so the ratio says little.");
  }
  add_dropout_note(figure);
  return figure;
}

}  // namespace

Figure trio_12() {
  return {.name = kName,
          .description = "time to accuracy with p = 16 %, a real model in virtual time",
          .x_name = "accuracy_percent",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
