// SPDX-License-Identifier: Apache-2.0
// Figure 13 of the Trio paper: time of a training iteration over the straggling probability, for
// three networks: Trio-ML, SwitchML, a switch that waits for all workers, and no stragglers (§6.2).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/figures/repetition.h"
#include "lab/figures/share_plot.h"
#include "lab/figures/straggling_systems.h"
#include "lab/workload/ddp_workload.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "trio-13";

struct PaperModel {
  Model model;
  double speedup;  ///< At p = 16 %. Source: Trio paper §6.2.
  size_t
      favourable_count;  ///< Number of kFavourableSettings to measure; the last one meets the paper.
};
constexpr std::array<PaperModel, 3> kModels{
    {{Model::kResnet50, 1.72, 1}, {Model::kDensenet161, 1.75, 1}, {Model::kVgg11, 1.80, 2}}};
constexpr std::array<uint32_t, 3> kPercents{0, 8, 16};
constexpr std::array<uint32_t, 2> kPercentsQuick{0, 16};
constexpr uint32_t kIterations = 100;  ///< Source: Trio paper §6.2.
constexpr uint32_t kIterationsQuick = 4;

constexpr std::array<uint32_t, 4> kSystemsOfRedrawn{kWaiting, kSwitchml, kTrioSkip, kTrioCompute};
/// A switch that waits costs the same as SwitchML, with less work.
constexpr std::array<uint32_t, 3> kSystemsOfSameSleeper{kWaiting, kTrioSkip, kTrioCompute};

/// Fewer than the figure's: they give means, not samples of the paper's size.
constexpr uint32_t kFavourableIterations = 20;
constexpr std::array<uint32_t, 3> kFavourableSystems{kWaiting, kTrioSkip, kTrioCompute};

std::span<const FavourableSetting> favourable_settings(const FigureOptions& options,
                                                       const PaperModel& model) {
  return std::span(kFavourableSettings).first(options.quick ? 0 : model.favourable_count);
}

std::span<const uint32_t> percents(const FigureOptions& options) {
  if (options.quick) return kPercentsQuick;
  return kPercents;
}

std::span<const uint32_t> systems_of(const StragglerReading& reading) {
  if (reading.pattern == Straggling::kSlowWorkerFixed) return kSystemsOfSameSleeper;
  return kSystemsOfRedrawn;
}

bool has_reading(const StragglerReading& reading, uint32_t percent) {
  return reading.pattern == Straggling::kSlowWorker || percent == kPaperPercent;
}

Scenario straggling_scenario(const StragglingSystem& system, Model model, uint32_t iterations,
                             Straggling pattern, uint32_t percent) {
  Scenario scenario = scenario_of(system, model, iterations);
  scenario.straggler.pattern = pattern;
  scenario.straggler.probability = percent / 100.0;
  return scenario;
}

/// For each model: the ideal; the systems without stragglers; at each probability and reading its
/// systems; SwitchML that resends; the favourable settings. Each model has its own block of seeds;
/// all systems meet the same stragglers.
Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  const uint32_t iterations = options.count_of(kIterations, kIterationsQuick);
  for (uint32_t block = 0; block < kModels.size(); block++) {
    const Model model = kModels[block].model;
    const auto label = [&](const StragglingSystem& system, uint32_t percent, const char* suffix) {
      return fmt::format("{} {}{} p={}%", name_of(model), system.name, suffix, percent);
    };
    add_point(made, options, label(kIdealSystem, 0, ""),
              scenario_of(kIdealSystem, model, iterations));
    for (const uint32_t index : systems_of(kStragglerReadings[0])) {
      const StragglingSystem& system = kStragglingSystems[index];
      add_point(made, options, label(system, 0, ""), scenario_of(system, model, iterations));
    }
    for (const uint32_t percent : percents(options)) {
      if (percent == 0) continue;
      for (const StragglerReading& reading : kStragglerReadings) {
        if (!has_reading(reading, percent)) continue;
        for (const uint32_t index : systems_of(reading)) {
          const StragglingSystem& system = kStragglingSystems[index];
          add_cell(made, options, label(system, percent, reading.suffix),
                   straggling_scenario(system, model, iterations, reading.pattern, percent), block);
        }
      }
    }
    const StragglingSystem& resending = kStragglingSystems[kSwitchmlResending];
    add_point(made, first_of(options, block), label(resending, kPaperPercent, ""),
              straggling_scenario(resending, model, iterations, kStragglerReadings[0].pattern,
                                  kPaperPercent));
    for (const FavourableSetting& setting : favourable_settings(options, kModels[block])) {
      for (const uint32_t index : kFavourableSystems) {
        const StragglingSystem& system = kStragglingSystems[index];
        add_cell(
            made, options, fmt::format("{} {}, {}", name_of(model), system.name, setting.name),
            favourable_scenario(setting, system, model, options.count_of(kFavourableIterations)),
            block);
      }
    }
  }
  return all_or_error(std::move(made));
}

/// Makes one model's rows and plots from its cells.
class ModelRows {
 public:
  /// @param scenario Of the network without stragglers.
  ModelRows(const FigureOptions& options, uint32_t block, const Scenario& scenario,
            CellReader& cells, FigureOutcome& figure)
      : options_(options),
        first_options_(first_of(options, block)),
        model_(kModels[block]),
        figure_(figure),
        scenario_(scenario),
        ideal_(cells.next_point()),
        shares_(fmt::format("Trio Figure 13: {}, sums without every worker", name_of(model_.model)),
                kXLabel) {
    read(cells);
    for (const uint32_t percent : percents(options)) add_percent(percent);
    add_time("switchml-256 resending", kPaperPercent, resending_);
    add_favourable();
    add_plot();
  }

 private:
  /// The systems at one probability and reading; empty where they did not run.
  using Systems = std::array<Cell, kStragglingSystems.size()>;
  /// A favourable setting's outcomes.
  struct FavourableCells {
    const FavourableSetting* setting;
    Cell waiting;
    std::array<Cell, 2> trio;  ///< By kWays.
  };

  void read(CellReader& cells) {
    Systems calm;
    for (const uint32_t index : systems_of(kStragglerReadings[0])) calm[index] = cells.next_point();
    for (const uint32_t percent : percents(options_)) {
      for (size_t r = 0; r < kStragglerReadings.size(); r++) {
        Systems& systems = systems_[percent][r];
        // Without stragglers there is one reading.
        if (percent == 0) systems = calm;
        if (percent == 0 || !has_reading(kStragglerReadings[r], percent)) continue;
        for (const uint32_t index : systems_of(kStragglerReadings[r]))
          systems[index] = cells.next();
      }
    }
    resending_ = cells.next_point();
    for (const FavourableSetting& setting : favourable_settings(options_, model_)) {
      std::array<Cell, kFavourableSystems.size()> read;
      for (Cell& cell : read) cell = cells.next();
      favourable_.push_back({.setting = &setting, .waiting = read[0], .trio = {read[1], read[2]}});
    }
  }

  void add_percent(uint32_t percent) {
    add_time("ideal", percent, ideal_).seed = options_.seed;
    for (size_t r = 0; r < kStragglerReadings.size(); r++) {
      if (percent == 0 && r > 0) continue;
      if (has_reading(kStragglerReadings[r], percent)) add_reading(percent, r);
    }
  }

  void add_reading(uint32_t percent, size_t reading) {
    const Systems& systems = systems_[percent][reading];
    const char* suffix = kStragglerReadings[reading].suffix;
    for (const uint32_t index : systems_of(kStragglerReadings[reading])) {
      add_time(fmt::format("{}{}", kStragglingSystems[index].name, suffix), percent,
               systems[index]);
    }
    const Cell waiting = systems[reading == 0 ? kSwitchml : kWaiting];
    const Sample free = ratio_over(waiting, ideal_, iteration_ms);
    add_row(fmt::format("speed-up of free mitigation{}", suffix), percent, ideal_, free, "x");
    for (const size_t way : {kSkip, kCompute}) {
      const Cell trio = systems[kTrioSkip + way];
      FigureRow& row = add_row(fmt::format("speed-up {}{}", kWays[way], suffix), percent, trio,
                               ratio_over(waiting, trio, iteration_ms), "x");
      if (percent != kPaperPercent) continue;
      compare_with_paper(options_, row, model_.speedup, cause_of(way, trio, free));
    }
  }

  /// Returns why a speed-up differs from the paper's, and where it would be met.
  /// @param trio Trio-ML's runs.
  /// @param free The speed-up of free mitigation.
  [[nodiscard]] std::string cause_of(size_t way, Cell trio, const Sample& free) const {
    std::vector<SettingValue> settings;
    for (const FavourableCells& cells : favourable_) {
      settings.push_back(value_of_setting(cells, way));
    }
    const CatchUp catch_up = kStragglingSystems[kTrioSkip + way].catch_up;
    const double windows =
        static_cast<double>(workload_of(scenario_).elements() * scenario_.train) /
        scenario_.gradients / scenario_.window;
    return cause_with_settings(
        fmt::format("{}, each of about {:.0f} windows of an iteration of {:.0f} ms waits for a "
                    "timeout of {:.0f} ms or more. Free mitigation (a timeout of no time) gives "
                    "{:.2f}, and {:.2f} in the highest sample.",
                    when_timeouts(catch_up, shares_over(trio), kPaperProbability), windows,
                    iteration_ms(ideal_[0]), as_ms(scenario_.mitigation.timeout), free.mean,
                    free.high),
        model_.speedup, settings);
  }

  void add_favourable() {
    for (const FavourableCells& cells : favourable_) {
      const FavourableSetting& setting = *cells.setting;
      for (const size_t way : {kSkip, kCompute}) {
        FigureRow& row =
            add_row(fmt::format("speed-up {}, {}", kWays[way], setting.name), setting.percent,
                    cells.trio[way], ratio_over(cells.waiting, cells.trio[way], iteration_ms), "x");
        if (!setting.is_papers()) continue;
        compare_with_paper(options_, row, model_.speedup, cause_of(cells, way));
      }
    }
  }

  [[nodiscard]] static SettingValue value_of_setting(const FavourableCells& cells, size_t way) {
    return value_with(*cells.setting, ratio_over(cells.waiting, cells.trio[way], iteration_ms),
                      shares_over(cells.trio[way]));
  }

  /// Returns why a favourable setting differs from the paper's value, and the value at p = 20 %,
  /// which the paper does not have.
  [[nodiscard]] std::string cause_of(const FavourableCells& cells, size_t way) const {
    std::vector<SettingValue> others;
    for (const FavourableCells& other : favourable_) {
      if (!other.setting->is_papers()) others.push_back(value_of_setting(other, way));
    }
    return cause_with_settings(cause_with(*cells.setting, shares_over(cells.trio[way])),
                               model_.speedup, others);
  }

  void add_plot() {
    LinePlot plot{.title = fmt::format("Trio Figure 13: {}", name_of(model_.model)),
                  .x_label = kXLabel,
                  .y_label = "mean iteration (ms)",
                  .series = {},
                  .height_px = 360,
                  .y_from_zero = true};
    const double last = percents(options_).back();
    const double ideal_ms = iteration_ms(ideal_[0]);
    plot.series.push_back(
        {.name = "ideal", .points = {{0, ideal_ms}, {last, ideal_ms}}, .reference = true});
    for (size_t r = 0; r < kStragglerReadings.size(); r++) {
      for (const uint32_t index : systems_of(kStragglerReadings[r])) {
        plot.series.push_back(line_of(r, index));
      }
    }
    const double ms =
        sample_over(systems_[kPaperPercent][0][kSwitchml], iteration_ms).mean / model_.speedup;
    plot.series.push_back(
        {.name = fmt::format("paper: {:.2f} times as fast as switchml-256", model_.speedup),
         .points = {{kPaperPercent, ms}},
         .marks_only = true});
    figure_.plots.push_back(std::move(plot));
    figure_.plots.push_back(shares_.plot());
  }

  /// Returns a system's line under one reading, and adds its shares.
  PlotSeries line_of(size_t reading, uint32_t index) {
    const StragglingSystem& system = kStragglingSystems[index];
    PlotSeries line{.name = fmt::format("{}{}", system.name, kStragglerReadings[reading].suffix),
                    .points = {},
                    .band = true};
    for (const auto& [percent, readings] : systems_) {
      if (readings[reading][index].empty()) continue;
      const Cell cell = readings[reading][index];
      line.points.push_back(sample_point(percent, sample_over(cell, iteration_ms)));
      if (mitigates(system)) shares_.add(line.name, percent, shares_over(cell));
    }
    return line;
  }

  FigureRow& add_time(const std::string& series, double percent, Cell cell) {
    return add_row(series, percent, cell, sample_over(cell, iteration_ms), "ms");
  }

  /// Adds a row with the seed of the model's block. Runs without stragglers have the figure's.
  /// @param cell The runs whose shares of sums the row has.
  FigureRow& add_row(const std::string& series, double percent, Cell cell, const Sample& sample,
                     const char* unit) {
    figure_.rows.push_back(sample_row(percent == 0 ? options_ : first_options_, kName,
                                      fmt::format("{} {}", name_of(model_.model), series), percent,
                                      sample, unit));
    figure_.rows.back().shares = shares_over(cell);
    return figure_.rows.back();
  }

  static constexpr size_t kSkip = 0;
  static constexpr size_t kCompute = 1;
  static constexpr std::array<const char*, 2> kWays{"skip", "compute"};
  static_assert(kTrioCompute == kTrioSkip + kCompute);

  const FigureOptions& options_;
  const FigureOptions first_options_;
  const PaperModel& model_;
  FigureOutcome& figure_;
  const Scenario& scenario_;
  static constexpr const char* kXLabel = "straggling probability p (%)";

  const Cell ideal_;
  std::map<uint32_t, std::array<Systems, kStragglerReadings.size()>> systems_;  ///< By percent.
  Cell resending_;
  std::vector<FavourableCells> favourable_;
  SharePlot shares_;
};

/// Returns the note on samples.
std::string samples_note(const FigureOptions& options) {
  const uint32_t iterations = options.count_of(kIterations, kIterationsQuick);
  std::string note = fmt::format("{}; lowest and highest of samples of {} iterations (paper: {}).",
                                 seeds_text(options), iterations, kIterations);
  if (!favourable_settings(options, kModels[0]).empty()) {
    note += fmt::format(
        " Rows with 700 ms of computation have samples of {} iterations: the fewer iterations, the "
        "wider the range.",
        options.count_of(kFavourableIterations));
  }
  return note + " The paper states only the speed-ups at 16 % in its text.";
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  CellReader cells(options, outcomes);
  for (uint32_t block = 0; block < kModels.size(); block++) {
    const auto first = std::find_if(points.begin(), points.end(), [block](const Point& point) {
      return point.scenario.model.kind == kModels[block].model;
    });
    ModelRows(options, block, first->scenario, cells, figure);
  }
  figure.notes = {
      "speed-up: time of SwitchML-256 over time of Trio-ML with the same stragglers. As in the "
      "paper's set-up SwitchML does not retransmit; \"resending\" does after 1 ms, with the first "
      "seed. \"same sleeper\" and \"700 ms of computation\" are compared with a switch that waits.",
      "skip: a worker that has slept abandons iterations that the others have completed. compute: "
      "it computes them all. Each point of an iteration draws the worker that may sleep; \"same "
      "sleeper\": it is always the same one.",
      samples_note(options)};
  add_dropout_note(figure);
  return figure;
}

}  // namespace

Figure trio_13() {
  return {.name = kName,
          .description = "iteration time over the straggling probability, three networks",
          .x_name = "p_percent",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
