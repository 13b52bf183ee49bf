// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/text_table.h"
#include "lab/report/figure_row.h"
#include "lab/report/sample.h"

namespace tributary::lab {
namespace {

using Value = double (*)(const RunResult& result);

/// A column of the tables.
struct Column {
  std::string_view name;
  Value value;
};
constexpr Column kColumns[] = {
    {"mean_iteration_ms", [](const RunResult& result) { return as_ms(result.mean_iteration); }},
    {"total_ms", [](const RunResult& result) { return as_ms(result.total); }},
    {"degraded_fraction", [](const RunResult& result) { return result.degraded_fraction(); }},
    {"skipped_fraction", [](const RunResult& result) { return result.skipped_fraction(); }},
    {"missed_fraction", [](const RunResult& result) { return result.missed_fraction(); }},
    {"simulated_packets",
     [](const RunResult& result) { return static_cast<double>(result.packets); }},
};

/// A quantity with a plot of its own.
struct Plotted {
  const char* y_label;
  double factor;
  Value value;
  bool only_if_nonzero;
};
constexpr Plotted kPlotted[] = {
    {"mean iteration (ms)", 1, kColumns[0].value, false},
    {"results that lack a worker (%)", 100, kColumns[2].value, true},
    {"of blocks that a worker skipped (%)", 100, kColumns[3].value, true},
    {"sums that a worker missed (%)", 100, kColumns[4].value, true}};

/// A combination of swept values, and the outcomes of its repetitions.
struct Cell {
  Json values;  ///< Values of sweep.keys.
  const Scenario* scenario;
  std::vector<const RunResult*> results;

  [[nodiscard]] Sample sample(Value value) const {
    std::vector<double> all;
    for (const RunResult* result : results) all.push_back(value(*result));
    return sample_of(all);
  }
};

/// Returns the cells in the order of the points, without those that have no outcome.
std::vector<Cell> cells_of(const Sweep& sweep, const RunnerOutcome& ran) {
  TRIB_ASSERT(ran.points.size() == sweep.points.size());
  std::vector<Cell> cells;
  for (size_t i = 0; i < sweep.points.size(); i++) {
    if (!ran.points[i]) continue;
    Json values = sweep.values[i];
    values.erase("seed");
    if (cells.empty() || cells.back().values != values) {
      cells.push_back(
          {.values = std::move(values), .scenario = &sweep.points[i].scenario, .results = {}});
    }
    cells.back().results.push_back(&ran.points[i]->result);
  }
  return cells;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> values_of(const Sweep& sweep, const Cell& cell) {
  std::vector<std::string> values;
  for (const std::string& key : sweep.keys) values.push_back(text_of(cell.values.at(key)));
  if (sweep.repeats > 1) values.push_back(fmt::format("{}", cell.results.size()));
  return values;
}

std::string csv_line(std::vector<std::string> fields) {
  for (std::string& field : fields) field = csv_field(field);
  return fmt::format("{}\n", fmt::join(fields, ","));
}

/// Returns the name of a cell's line: the values of all keys but the axis, the back end's without
/// its key.
std::string line_name(const Sweep& sweep, const Cell& cell, const std::string& axis) {
  std::string name;
  for (const std::string& key : sweep.keys) {
    if (key == axis) continue;
    if (!name.empty()) name += ", ";
    name += key == "backend" ? text_of(cell.values.at(key))
                             : fmt::format("{}={}", key, text_of(cell.values.at(key)));
  }
  return name.empty() ? name_of(cell.scenario->backend) : name;
}

/// Returns a logarithmic scale if positive values span two powers of ten or more.
PlotScale scale_of(const std::vector<Cell>& cells, const std::string& axis) {
  constexpr double kWide = 100;
  double low = INFINITY;
  double high = 0;
  for (const Cell& cell : cells) {
    const auto x = cell.values.at(axis).get<double>();
    low = std::min(low, x);
    high = std::max(high, x);
  }
  return low > 0 && high / low >= kWide ? PlotScale::kLog10 : PlotScale::kLinear;
}

}  // namespace

std::string sweep_json_lines(const Sweep& sweep, const RunnerOutcome& ran) {
  std::string text;
  std::string skipped;
  const auto line = [](const Json& values, const char* key, Json value) {
    return Json{{"values", values}, {key, std::move(value)}}.dump() + "\n";
  };
  for (size_t i = 0; i < sweep.points.size(); i++) {
    if (ran.points[i]) {
      text += line(sweep.values[i], "outcome", outcome_json(*ran.points[i]));
    } else {
      skipped += line(sweep.values[i], "skipped", ran.failures[i]);
    }
  }
  for (const RefusedPoint& refused : sweep.refused) {
    skipped += line(refused.values, "skipped", refused.reason);
  }
  return text + skipped;
}

std::string sweep_csv(const Sweep& sweep, const RunnerOutcome& ran) {
  const bool repeats = sweep.repeats > 1;
  std::vector<std::string> head = sweep.keys;
  if (repeats) head.emplace_back("seeds");
  for (const Column& column : kColumns) {
    head.emplace_back(column.name);
    if (repeats) head.push_back(fmt::format("{}_error", column.name));
  }
  std::string text = csv_line(std::move(head));
  for (const Cell& cell : cells_of(sweep, ran)) {
    std::vector<std::string> line = values_of(sweep, cell);
    for (const Column& column : kColumns) {
      const Sample sample = cell.sample(column.value);
      line.push_back(fmt::format("{}", sample.mean));
      if (repeats) line.push_back(fmt::format("{}", sample.standard_error));
    }
    text += csv_line(std::move(line));
  }
  return text;
}

std::string sweep_table(const Sweep& sweep, const RunnerOutcome& ran) {
  TextTable table;
  std::vector<std::string> head = sweep.keys;
  if (sweep.repeats > 1) head.emplace_back("seeds");
  for (const Column& column : kColumns) head.emplace_back(column.name);
  table.add(std::move(head));
  for (const Cell& cell : cells_of(sweep, ran)) {
    std::vector<std::string> line = values_of(sweep, cell);
    for (const Column& column : kColumns) {
      const Sample sample = cell.sample(column.value);
      line.push_back(short_number(sample.mean));
      if (sample.standard_error > 0) {
        line.back() += fmt::format(" ± {}", short_number(sample.standard_error));
      }
    }
    table.add(std::move(line));
  }
  std::string text = table.text();
  for (size_t i = 0; i < sweep.points.size(); i++) {
    if (ran.points[i]) continue;
    text += fmt::format("skipped: {}: {}\n", sweep.points[i].label, ran.failures[i]);
  }
  for (const RefusedPoint& refused : sweep.refused) {
    text += fmt::format("skipped: {}: {}\n", refused.label, refused.reason);
  }
  const uint64_t refused = sweep.refused.size() * sweep.repeats;
  if (ran.failed + refused > 0) {
    text += fmt::format("{} of {} points skipped\n", ran.failed + refused,
                        sweep.points.size() + refused);
  }
  return text;
}

std::optional<std::string> sweep_axis(const Sweep& sweep) {
  for (const std::string& key : sweep.keys) {
    const auto is_number = [&key](const Json& values) { return values.at(key).is_number(); };
    if (std::all_of(sweep.values.begin(), sweep.values.end(), is_number)) return key;
  }
  return std::nullopt;
}

std::vector<LinePlot> sweep_plots(const Sweep& sweep, const RunnerOutcome& ran) {
  std::vector<LinePlot> plots;
  const std::optional<std::string> axis = sweep_axis(sweep);
  if (!axis) return plots;
  const std::vector<Cell> cells = cells_of(sweep, ran);
  for (const Plotted& plotted : kPlotted) {
    LinePlot plot{.title = fmt::format("{} over {}", plotted.y_label, *axis),
                  .x_label = *axis,
                  .y_label = plotted.y_label,
                  .series = {},
                  .height_px = 400,
                  .x_scale = scale_of(cells, *axis),
                  .y_from_zero = true};
    bool is_zero = true;
    for (const Cell& cell : cells) {
      const std::string name = line_name(sweep, cell, *axis);
      auto line = std::find_if(plot.series.begin(), plot.series.end(),
                               [&](const PlotSeries& known) { return known.name == name; });
      if (line == plot.series.end()) {
        plot.series.push_back({.name = name, .points = {}, .band = true});
        line = std::prev(plot.series.end());
      }
      const Sample sample = cell.sample(plotted.value);
      line->points.push_back({.x = cell.values.at(*axis).get<double>(),
                              .y = sample.mean * plotted.factor,
                              .error = sample.standard_error * plotted.factor});
      is_zero = is_zero && sample.mean == 0;
    }
    for (PlotSeries& line : plot.series) {
      std::sort(line.points.begin(), line.points.end(),
                [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
    }
    if (!is_zero || !plotted.only_if_nonzero) plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace tributary::lab
