// SPDX-License-Identifier: Apache-2.0
// The plots of a comparison.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lab/compare/compare_report.h"
#include "lab/report/figure_row.h"

namespace tributary::lab {
namespace {

/// A candidate for a plot's x axis.
struct Axis {
  const char* label;
  double factor;
  double (*value)(const CompareCase& at);
};
constexpr Axis kAxes[] = {
    {"straggling probability (%)", 100, [](const CompareCase& at) { return at.straggling; }},
    {"loss on each link (%)", 100, [](const CompareCase& at) { return at.loss; }},
    {"workers", 1, [](const CompareCase& at) { return static_cast<double>(at.workers); }}};

/// Returns the axis with the most values, the first of equals.
const Axis& longest_axis(std::span<const CompareRow> rows) {
  const Axis* longest = &kAxes[0];
  size_t most = 0;
  for (const Axis& axis : kAxes) {
    std::map<double, bool> values;
    for (const CompareRow& row : rows) values[axis.value(row.at)] = true;
    if (values.size() > most) longest = &axis;
    most = std::max(most, values.size());
  }
  return *longest;
}

/// Returns the values of a case that are not on the axis.
std::string rest_of(const CompareCase& at, const Axis& axis) {
  std::string text = name_of(at.model);
  for (const Axis& other : kAxes) {
    if (&other == &axis) continue;
    text += fmt::format(", {} {}", other.label, short_number(other.value(at) * other.factor));
  }
  return text;
}

/// A quantity with plots of its own.
struct Plotted {
  const char* title;  ///< Before the case.
  const char* y_label;
  double factor;
  std::optional<double> CompareRow::*value;
  std::optional<Sample> CompareRow::*sample;
  bool only_if_nonzero;
};
constexpr Plotted kPlotted[] = {
    {"", "mean iteration (ms)", 1, &CompareRow::iteration_ms, &CompareRow::iteration_sample, false},
    {"Degraded: ", "results that lack a worker (%)", 100, &CompareRow::degraded_fraction,
     &CompareRow::degraded_sample, true},
    {"Skipped: ", "of blocks that a worker skipped (%)", 100, &CompareRow::skipped_fraction,
     &CompareRow::skipped_sample, true},
    {"Missed: ", "sums that a worker missed (%)", 100, &CompareRow::missed_fraction,
     &CompareRow::missed_sample, true}};

/// Returns the line of this name in the plot of this title. Adds them if they are not there yet.
PlotSeries& line_of(std::vector<LinePlot>& plots, const std::string& title, const char* y_label,
                    const Axis& axis, const std::string& name) {
  auto plot = std::find_if(plots.begin(), plots.end(),
                           [&](const LinePlot& known) { return known.title == title; });
  if (plot == plots.end()) {
    plots.push_back({.title = title,
                     .x_label = axis.label,
                     .y_label = y_label,
                     .series = {},
                     .height_px = 360,
                     .y_from_zero = true});
    plot = std::prev(plots.end());
  }
  auto line = std::find_if(plot->series.begin(), plot->series.end(),
                           [&](const PlotSeries& known) { return known.name == name; });
  if (line == plot->series.end()) {
    plot->series.push_back({.name = name, .points = {}, .band = true});
    line = std::prev(plot->series.end());
  }
  return *line;
}

}  // namespace

std::vector<LinePlot> compare_plots(std::span<const CompareRow> rows) {
  std::vector<LinePlot> plots;
  if (rows.empty()) return plots;
  const Axis& axis = longest_axis(rows);
  std::map<std::string, std::vector<PlotPoint>> paper;  // By title.
  for (const Plotted& plotted : kPlotted) {
    std::vector<LinePlot> made;
    bool is_zero = true;
    for (const CompareRow& row : rows) {
      const std::optional<double> value = row.*plotted.value;
      if (!value) continue;
      const std::string title = plotted.title + rest_of(row.at, axis);
      PlotSeries& line = line_of(made, title, plotted.y_label, axis, name_of(row.backend));
      const double x = axis.value(row.at) * axis.factor;
      const std::optional<Sample>& sample = row.*plotted.sample;
      const double error = sample ? sample->standard_error * plotted.factor : 0;
      line.points.push_back({x, *value * plotted.factor, error});
      is_zero = is_zero && *value == 0;
      if (&plotted == &kPlotted[0] && row.paper && row.speedup) {
        paper[title].push_back({x, *row.iteration_ms * *row.speedup / *row.paper});
      }
    }
    if (is_zero && plotted.only_if_nonzero) continue;
    std::move(made.begin(), made.end(), std::back_inserter(plots));
  }
  for (LinePlot& plot : plots) {
    if (!paper.contains(plot.title)) continue;
    plot.series.push_back(
        {.name = "paper's speed-up", .points = paper[plot.title], .marks_only = true});
  }
  return plots;
}

}  // namespace tributary::lab
