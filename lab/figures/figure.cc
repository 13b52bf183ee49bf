// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "lab/workload/ddp_workload.h"

namespace tributary::lab {

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all{
      alternatives(), asynchronous(),      byteps_12(),        byteps_13(),  byteps_14(),
      byteps_15(),    byteps_16(),         constants(),        permanent(),  scheduling(),
      switchml_3(),   switchml_6(),        switchml_7(),       switchml_9(), trio_12(),
      trio_13(),      trio_13_iteration(), trio_13_settings(), trio_14(),    trio_15(),
      trio_16(),      trio_generations()};
  return all;
}

namespace {

/// By figure: see relied_keys(). Also has keys that only the full figure varies.
const std::map<std::string_view, std::vector<std::string_view>>& relied_by_figure() {
  // A single GPU's iteration is the network's computation.
  static const std::vector<std::string_view> scaling{
      "workers",          "model.name",        "model.bucket_bytes",
      "model.forward_ms", "model.backward_ms", "model.input_ms"};
  static const std::map<std::string_view, std::vector<std::string_view>> all{
      // Rows state the share of delay points that delay, 0 % in some.
      {"alternatives", {"straggler.pattern"}},
      // An iteration carries all tensors.
      {"byteps-12", {"model.local_steps"}},
      // Links inside a machine limit its rate, by equation 6 for the figure's machines.
      {"byteps-13", {"workers"}},
      {"byteps-14", {"workers", "aggregators.spare"}},
      {"byteps-15", scaling},
      {"byteps-16", scaling},
      // Rows state the constants of generation 5. Runs are those of quick figures.
      {"constants", {"backend", "pfe.generation", "iterations"}},
      {"permanent", {"straggler.pattern"}},
      // Times by hand are those of all workers' links.
      {"scheduling", {"link.rate_gbps", "host.nic_gbps", "link.slow_workers", "model.local_steps"}},
      {"switchml-3", {"model.local_steps"}},
      {"switchml-7", {"timeline.link"}},
      {"trio-12", {"straggler.probability"}},
      {"trio-13-settings", {"straggler.probability"}},
      {"trio-14", {"straggler.pattern"}},
      // One PFE adds for all workers.
      {"trio-15", {"backend"}},
      {"trio-16", {"backend", "topology"}},
      {"trio-generations", {"backend", "topology", "gradients"}}};
  return all;
}

/// Within a tenth.
bool agrees(double here, double paper) { return std::abs(here / paper - 1) <= 0.1; }

/// Returns the values of a key over the points. A pattern that never delays counts as none.
std::set<std::string> values_over(std::span<const Point> points, const ScenarioKey& key) {
  std::set<std::string> values;
  for (const Point& point : points) {
    const bool never_delays = point.scenario.straggler.probability == 0;
    const bool is_none = point.scenario.straggler.pattern.contains(Straggling::kNone);
    if (key.spec.name == "straggler.pattern" && is_none && never_delays) continue;
    values.insert(key.show(point.scenario));
  }
  return values;
}

bool relies_on(const Figure& figure, std::string_view key) {
  const std::span<const std::string_view> relied = relied_keys(figure);
  return std::find(relied.begin(), relied.end(), key) != relied.end();
}

/// Returns the refusal of a key that the figure's rows rely on.
/// @param values Those of the figure's points.
Error relied_error(const Figure& figure, const std::string& where, const std::string& key,
                   const std::set<std::string>& values) {
  return {fmt::format(
      "{}: {} is not allowed, because rows of {} are computed for {}={}; allowed: other keys; "
      "use for this one: tributary lab run, tributary lab sweep",
      where, key, figure.name, key,
      values.empty() ? "none" : fmt::format("{}", fmt::join(values, ", ")))};
}

/// Refuses a key by its name and its values in the figure's own points.
Result<void> check_key(const Figure& figure, const Setting& setting,
                       std::span<const Point> points) {
  if (setting.name == "seed") {
    return failure(
        fmt::format("{}: seed is not allowed, because every repetition has its own; "
                    "allowed: --seed, that of the first",
                    setting.where));
  }
  if (setting.name == "capture") {
    return failure(fmt::format(
        "{}: capture is not allowed in a figure, whose runs would write one file; allowed: none",
        setting.where));
  }
  // Trains differ between networks, but no row names them.
  if (setting.name == "train") return {};
  const std::set<std::string> values = values_over(points, *find_scenario_key(setting.name));
  if (relies_on(figure, setting.name)) {
    return tl::unexpected(relied_error(figure, setting.where, setting.name, values));
  }
  if (setting.name == "iterations") {
    return failure(
        fmt::format("{}: iterations is not allowed in a figure, which may count bursts, blocks or "
                    "windows instead; allowed: --iterations",
                    setting.where));
  }
  if (values.size() <= 1) return {};
  return failure(fmt::format(
      "{}: {} is not allowed, because {} varies it ({}); allowed: keys that it does not vary",
      setting.where, setting.name, figure.name, fmt::join(values, ", ")));
}

}  // namespace

std::span<const std::string_view> relied_keys(const Figure& figure) {
  const auto found = relied_by_figure().find(figure.name);
  if (found == relied_by_figure().end()) return {};
  return found->second;
}

Result<void> check_settings(const Figure& figure, const FigureOptions& options) {
  const bool sets_iterations = options.iterations != 0 && relies_on(figure, "iterations");
  if (options.settings.empty() && !sets_iterations) return {};
  FigureOptions own = options;
  own.settings.clear();
  const Result<std::vector<Point>> points = figure.points(own);
  if (!points) return tl::unexpected(points.error());
  if (sets_iterations) {
    const std::set<std::string> values = values_over(*points, *find_scenario_key("iterations"));
    return tl::unexpected(relied_error(figure, "--iterations", "iterations", values));
  }
  for (const Setting& setting : options.settings) {
    if (auto good = check_key(figure, setting, *points); !good) return good;
  }
  const Result<std::vector<Point>> changed = figure.points(options);
  if (!changed) return tl::unexpected(changed.error());
  return check_effects(*changed, options.settings);
}

Result<Point> figure_point(const FigureOptions& options, std::string label, Scenario scenario) {
  scenario.seed = options.seed;
  Result<Scenario> made = make_scenario(options.settings, std::move(scenario), label);
  if (!made) return tl::unexpected(made.error());
  Point point;
  point.label = std::move(label);
  point.scenario = *std::move(made);
  return point;
}

double gradients_sent(const Scenario& scenario) {
  return static_cast<double>(workload_of(scenario).elements() * scenario.train);
}

Result<std::vector<Point>> all_or_error(std::vector<Result<Point>> made) {
  std::vector<Point> points;
  for (Result<Point>& point : made) {
    if (!point) return tl::unexpected(point.error());
    points.push_back(std::move(*point));
  }
  return points;
}

FigureRow figure_row(const FigureOptions& options, const char* figure, std::string series, double x,
                     double here, const char* unit) {
  return {.figure = figure,
          .series = std::move(series),
          .x = x,
          .here = here,
          .unit = unit,
          .seed = options.seed};
}

void compare_with_paper(const FigureOptions& options, FigureRow& row, double paper,
                        std::string cause) {
  row.paper = paper;
  const bool is_own = !options.quick && options.iterations == 0 && options.settings.empty();
  const bool is_known = std::isfinite(row.here);  // Its point may have failed.
  if (is_own && is_known && !agrees(row.here, paper)) row.explained = std::move(cause);
}

std::string cause_with_settings(std::string cause, double paper,
                                std::span<const SettingValue> settings) {
  bool is_measured = false;
  bool is_compared = false;
  bool is_met = false;
  std::string met_with;  // SettingValue::unlike_paper.
  for (const SettingValue& with : settings) {
    if (!std::isfinite(with.here)) continue;  // Its point failed.
    cause += fmt::format("{}{} gives {}", is_measured ? "; " : " Measured: ", with.setting,
                         short_number(with.here));
    if (with.standard_error > 0) cause += fmt::format(" ± {:.2g}", with.standard_error);
    is_measured = true;
    if (!with.unlike_paper.empty()) {
      if (agrees(with.here, paper)) met_with = with.unlike_paper;
      continue;
    }
    cause += fmt::format(", {:.2f} of the paper's value", with.here / paper);
    is_compared = true;
    is_met |= agrees(with.here, paper);
  }
  if (!is_measured) return cause;
  if (is_met) return cause + ".";
  if (met_with.empty()) {
    return cause + ". No setting measured here is within a tenth of the paper's value.";
  }
  if (!is_compared) return cause + ". The paper does not have " + met_with + ".";
  return cause + ". The paper's value would need about " + met_with +
         ", which the paper does not have.";
}

}  // namespace tributary::lab
