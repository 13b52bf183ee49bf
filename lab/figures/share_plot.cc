// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/share_plot.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tributary::lab {

SharePlot::SharePlot(std::string title, std::string x_label)
    : plot_{.title = std::move(title),
            .x_label = std::move(x_label),
            .y_label = "share of the sums (%)",
            .series = {},
            .height_px = 320,
            .y_from_zero = true} {}

void SharePlot::add(const std::string& system, double x, const BlockShares& shares) {
  add_point(system + ": degraded", x, shares.degraded);
  add_point(system + ": skipped", x, shares.skipped);
  add_point(system + ": missed", x, shares.missed);
}

LinePlot SharePlot::plot() const {
  LinePlot shown = plot_;
  std::erase_if(shown.series, [](const PlotSeries& line) {
    return std::all_of(line.points.begin(), line.points.end(),
                       [](const PlotPoint& point) { return point.y == 0; });
  });
  return shown;
}

void SharePlot::add_point(std::string name, double x, double share) {
  auto line = std::find_if(plot_.series.begin(), plot_.series.end(),
                           [&name](const PlotSeries& known) { return known.name == name; });
  if (line == plot_.series.end()) {
    plot_.series.push_back({.name = std::move(name), .points = {}});
    line = std::prev(plot_.series.end());
  }
  line->points.push_back({.x = x, .y = 100 * share});
}

}  // namespace tributary::lab
