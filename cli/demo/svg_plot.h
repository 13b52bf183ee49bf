// SPDX-License-Identifier: Apache-2.0
/// @file
/// Line plots as SVG text: axes with round ticks, a legend, one line per series; readable on light
/// and dark backgrounds, in colour and without (each series also has its own dash pattern).
///
/// Shapes:  Points are (x, y) in the data's units; a non-finite point breaks its line.
/// Errors:  None. A plot without points is an empty frame.
/// Threads: None; pure functions.
/// Tests:   tests/demo/svg_plot_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tributary::demo {

struct PlotPoint {
  double x;
  double y;
};

struct PlotSeries {
  std::string name;  ///< Shown in the legend.
  std::vector<PlotPoint> points;
};

struct LinePlot {
  std::string title = {};
  std::string x_label = {};  ///< With its unit.
  std::string y_label = {};  ///< With its unit.
  std::vector<PlotSeries> series = {};
  uint32_t width_px = 800;
  uint32_t height_px = 450;
};

/// A complete SVG document.
[[nodiscard]] std::string render_svg(const LinePlot& plot);

/// Round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high], ascending, about
/// `count_wanted` of them, at least two. The first is <= low, the last >= high.
[[nodiscard]] std::vector<double> axis_ticks(double low, double high, uint32_t count_wanted);

}  // namespace tributary::demo
