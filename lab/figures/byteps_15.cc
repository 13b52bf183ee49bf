// SPDX-License-Identifier: Apache-2.0
// Figures 15 and 16 of the BytePS paper: training speed on 16 to 256 GPUs, with as many spare
// machines as machines with GPUs, without spare machines, and with all-reduce (§7.4). Machines have
// NVLink. On 8 GPUs, the paper's smallest size, there is no network.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "lab/figures/byteps.h"
#include "lab/figures/byteps_models.h"
#include "lab/figures/figure.h"

namespace tributary::lab {
namespace {

/// A network's values at one size, in the order of kSeries.
constexpr size_t kValues = 5;
using Values = std::array<double, kValues>;
struct Series {
  const char* name;
  const char* unit;
};
/// The speeds of the systems in percent of linear scaling, then their ratios.
constexpr std::array<Series, kValues> kSeries{{{"with spare machines", "%"},
                                               {"without spare machines", "%"},
                                               {"all-reduce", "%"},
                                               {"with spare machines over all-reduce", "x"},
                                               {"without spare machines over all-reduce", "x"}}};
/// The systems of the figures, the first of kSeries.
enum System : uint8_t { kWithSpare, kWithoutSpare, kAllReduce, kSystems };

struct Training {
  BytepsModel model;
  Values paper = {};               ///< At 256 GPUs; 0 where the paper's text has no value.
  double spare_scaling_least = 0;  ///< A bound instead of a value; 0 for none.
  /// Why scaling is far from the paper's without other settings. Source: docs/byteps-figures.md.
  const char* scaling_cause = "";
};

constexpr uint32_t kMachinesMost = 32;

/// Machines with GPUs, 8 each.
std::vector<uint32_t> sizes(const FigureOptions& options) {
  if (options.quick) return {4};
  return {2, 4, 8, 16, kMachinesMost};
}

Scenario scenario_of(const BytepsModel& model, System system, uint32_t machines) {
  Scenario scenario = byteps_scenario(system == kAllReduce ? Backend::kRing : Backend::kSharded,
                                      machines, system == kWithSpare ? machines : 0);
  if (system == kAllReduce) use_nccl(scenario);
  train_model(scenario, model);
  return scenario;
}

// --- Settings that cost more than bytes ----------------------------------------------------------
// At the largest size only. The paper's text tells neither.

/// Gradients travel after the backward pass.
constexpr const char* kNoOverlap = "no overlap";
/// All-reduce's rate in percent of the rate of NCCL's path, beside kNoOverlap. Fitted: with it all
/// of Figure 15's values are within a tenth of the paper's.
constexpr uint64_t kSlowPercent = 80;
constexpr const char* kSlowAllReduce = "no overlap, all-reduce at 80 % of its rate";
/// Possible differences of the figure's own set-up and its settings from the paper's machines.
constexpr const char* kOwnTerms =
    "Here gradients travel during the backward pass, and all-reduce has the full rate of NCCL's "
    "path.";
constexpr const char* kNoOverlapTerms = "Here all-reduce has the full rate of NCCL's path.";
constexpr const char* kSlowTerms = "Here all-reduce has 80 % of the rate of NCCL's path.";
constexpr const char* kSettingsNote =
    "no overlap: gradients travel after the backward pass. The paper tells neither this nor "
    "the rate of all-reduce.";

Scenario without_overlap(Scenario scenario) {
  scenario.model.overlap_backward = false;
  return scenario;
}

Scenario slower(Scenario scenario) {
  scenario.link.rate_bits_per_s = scenario.link.rate_bits_per_s * kSlowPercent / 100;
  scenario.host.nic_bits_per_s = scenario.link.rate_bits_per_s;
  return scenario;
}

bool has_settings(const FigureOptions& options) { return sizes(options).back() == kMachinesMost; }

// --- Points --------------------------------------------------------------------------------------

/// The points by network: by size, then system; then those of the settings.
Result<std::vector<Point>> points_of(const FigureOptions& options,
                                     std::span<const Training> trainings) {
  std::vector<Result<Point>> made;
  for (const Training& training : trainings) {
    const auto add = [&](uint32_t machines, const std::string& what, Scenario scenario) {
      scenario.iterations = options.count_of(1);
      made.push_back(figure_point(
          options,
          fmt::format("{}, {} GPUs, {}", training.model.name, machines * kBytepsGpusEach, what),
          std::move(scenario)));
    };
    const auto of = [&](size_t system, uint32_t machines) {
      return scenario_of(training.model, static_cast<System>(system), machines);
    };
    for (const uint32_t machines : sizes(options)) {
      for (size_t i = 0; i < kSystems; i++) add(machines, kSeries[i].name, of(i, machines));
    }
    if (!has_settings(options)) continue;
    for (size_t i = 0; i < kSystems; i++) {
      add(kMachinesMost, fmt::format("{}, {}", kSeries[i].name, kNoOverlap),
          without_overlap(of(i, kMachinesMost)));
    }
    add(kMachinesMost, kSlowAllReduce, without_overlap(slower(of(kAllReduce, kMachinesMost))));
  }
  return all_or_error(std::move(made));
}

// --- Rows ----------------------------------------------------------------------------------------

/// Percent of linear scaling: a single GPU's iteration is its computation.
double scaling(const BytepsModel& model, const PointOutcome& outcome) {
  return value_of(outcome, [&model](const RunResult& run) {
    return in_seconds(model.computation()) / in_seconds(run.mean_iteration) * 100;
  });
}

Values values_of(double with_spare, double without_spare, double all_reduce) {
  return {with_spare, without_spare, all_reduce, with_spare / all_reduce,
          without_spare / all_reduce};
}

/// Makes the rows and the plot of one network.
class NetworkRows {
 public:
  /// @param outcomes Of the network's points, in their order.
  NetworkRows(FigureOutcome& figure, const FigureOptions& options, uint32_t number,
              const Training& training, std::span<const PointOutcome> outcomes)
      : figure_(figure),
        options_(options),
        name_(fmt::format("byteps-{}", number)),
        training_(training) {
    LinePlot plot{.title = fmt::format("BytePS Figure {}: {}", number, training.model.name),
                  .x_label = "GPUs",
                  .y_label = "% of linear scaling",
                  .series = {},
                  .height_px = 300,
                  .y_from_zero = true};
    for (size_t i = 0; i < kSystems; i++) {
      plot.series.push_back({.name = kSeries[i].name, .points = {}});
    }
    const std::vector<uint32_t> all = sizes(options);
    if (has_settings(options)) read_settings(outcomes.subspan(all.size() * kSystems));
    for (const uint32_t machines : all) {
      const Values values =
          values_of(scaling(training.model, outcomes[0]), scaling(training.model, outcomes[1]),
                    scaling(training.model, outcomes[2]));
      outcomes = outcomes.subspan(kSystems);
      add_rows(machines, {.name = nullptr, .terms = kOwnTerms, .values = values, .first = 0});
      for (size_t i = 0; i < kSystems; i++) {
        plot.series[i].points.push_back(
            {static_cast<double>(machines * kBytepsGpusEach), values[i]});
      }
    }
    for (const Setting& setting : settings_) add_rows(kMachinesMost, setting);
    if (has_settings(options)) add_paper(plot);
    figure.plots.push_back(std::move(plot));
  }

 private:
  struct Setting {
    const char* name;   ///< Null for the figure's own set-up.
    const char* terms;  ///< kOwnTerms, kNoOverlapTerms or kSlowTerms.
    Values values;
    size_t first;  ///< Index of the first value that differs from the setting before it.
  };

  void read_settings(std::span<const PointOutcome> outcomes) {
    const auto value = [&](size_t i) { return scaling(training_.model, outcomes[i]); };
    settings_ = {
        {kNoOverlap, kNoOverlapTerms, values_of(value(0), value(1), value(2)), 0},
        {kSlowAllReduce, kSlowTerms, values_of(value(0), value(1), value(kSystems)), kAllReduce}};
  }

  void add_rows(uint32_t machines, const Setting& own) {
    const std::string suffix = own.name == nullptr ? "" : fmt::format(", {}", own.name);
    for (size_t i = own.first; i < kValues; i++) {
      figure_.rows.push_back(
          figure_row(options_, name_.c_str(),
                     fmt::format("{}, {}{}", training_.model.name, kSeries[i].name, suffix),
                     machines * kBytepsGpusEach, own.values[i], kSeries[i].unit));
      if (machines != kMachinesMost || training_.paper[i] == 0) continue;
      compare_with_paper(options_, figure_.rows.back(), training_.paper[i], cause_of(i, own));
    }
  }

  /// Returns why a value differs from the paper's, and the other settings' values. Empty for
  /// scaling without all-reduce in a setting, for which no cause is known.
  /// @param own The row's setting: one of settings_, or the figure's own.
  [[nodiscard]] std::string cause_of(size_t i, const Setting& own) const {
    if (own.name != nullptr && i < kAllReduce) return {};
    std::vector<SettingValue> others;
    for (const Setting& other : settings_) {
      if (&other == &own || i < other.first) continue;
      others.push_back({.setting = other.name, .here = other.values[i]});
    }
    std::string cause = own.terms;
    if (i >= kSystems) cause = all_reduce_of_paper(own.values[kAllReduce]) + cause;
    if (i < kSystems && own.name == nullptr) cause = training_.scaling_cause;
    return cause_with_settings(std::move(cause), training_.paper[i], others);
  }

  /// Returns a sentence on all-reduce's scaling here and in the paper, where it follows from the
  /// scaling and the speed-up with spare machines.
  [[nodiscard]] std::string all_reduce_of_paper(double here) const {
    const double scaling = training_.paper[kWithSpare];
    const double speed_up = training_.paper[kSystems + kWithSpare];
    return fmt::format(
        "By the paper's values, {} % over {:.2f}, all-reduce has {:.0f} % of linear scaling; here "
        "it has {:.0f} %. ",
        scaling, speed_up, scaling / speed_up, here);
  }

  /// Adds the paper's statements on scaling at the largest size.
  void add_paper(LinePlot& plot) const {
    const double gpus = kMachinesMost * kBytepsGpusEach;
    const auto mark = [&](const char* name, double percent) {
      if (percent == 0) return;
      plot.series.push_back({.name = name, .points = {{gpus, percent}}, .marks_only = true});
    };
    mark("paper: with spare machines", training_.paper[kWithSpare]);
    mark("paper: at least, with spare machines", training_.spare_scaling_least);
    mark("paper: all-reduce", training_.paper[kAllReduce]);
  }

  FigureOutcome& figure_;
  const FigureOptions& options_;
  const std::string name_;
  const Training& training_;
  std::vector<Setting> settings_;
};

FigureOutcome finish(const FigureOptions& options, uint32_t number,
                     std::span<const Training> trainings, std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  const size_t each = outcomes.size() / trainings.size();
  for (size_t i = 0; i < trainings.size(); i++) {
    NetworkRows(figure, options, number, trainings[i], outcomes.subspan(i * each, each));
  }
  return figure;
}

// --- Figure 15 -----------------------------------------------------------------------------------

/// Source: §7.4. UGATIT's 84 % is stated. The ranges of speed-ups, 10 to 84 % and 9 to 53 %, name
/// no networks; assumed: the highest values are UGATIT's, "the least scalable", and the lowest
/// those of ResNet-50, "the most scalable".
std::vector<Training> vision() {
  return {{.model = resnet50_model(),
           .paper = {97.5, 0, 88, 1.10, 1.09},
           .scaling_cause = "The gradients take 30 ms at all-reduce's rate and travel during a "
                            "backward pass of 240 ms, so they cost nearly nothing."},
          {.model = vgg16_model()},
          {.model = ugatit_model(),
           .paper = {74, 0, 0, 1.84, 1.53},
           .scaling_cause = "The discriminators' gradients and the first connected layer's travel "
                            "during the backward pass."}};
}

Result<std::vector<Point>> points_15(const FigureOptions& options) {
  return points_of(options, vision());
}

FigureOutcome finish_15(const FigureOptions& options, std::span<const Point> /*points*/,
                        std::span<const PointOutcome> outcomes) {
  FigureOutcome figure = finish(options, 15, vision(), outcomes);
  figure.notes = {
      "The paper gives ranges of speed-ups. Their ends are set beside UGATIT and "
      "ResNet-50 here.",
      kSettingsNote};
  return figure;
}

// --- Figure 16 -----------------------------------------------------------------------------------

/// Source: §7.4.
std::vector<Training> language() {
  return {{.model = bert_large_model(), .spare_scaling_least = 91.6}};
}

Result<std::vector<Point>> points_16(const FigureOptions& options) {
  return points_of(options, language());
}

FigureOutcome finish_16(const FigureOptions& options, std::span<const Point> /*points*/,
                        std::span<const PointOutcome> outcomes) {
  FigureOutcome figure = finish(options, 16, language(), outcomes);
  figure.notes = {
      "The paper states at least 91.6 % of linear scaling with spare machines. "
      "Transformer and GPT-2 are left out: docs/byteps-figures.md says why.",
      kSettingsNote};
  return figure;
}

}  // namespace

Figure byteps_15() {
  return {.name = "byteps-15",
          .description = "training speed of image networks on 16 to 256 GPUs",
          .x_name = "gpus",
          .points = points_15,
          .finish = finish_15};
}

Figure byteps_16() {
  return {.name = "byteps-16",
          .description = "training speed of BERT-large on 16 to 256 GPUs",
          .x_name = "gpus",
          .points = points_16,
          .finish = finish_16};
}

}  // namespace tributary::lab
