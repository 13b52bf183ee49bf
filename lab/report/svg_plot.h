// SPDX-License-Identifier: Apache-2.0
/// @file
/// Line plots as SVG text: axes with round ticks (linear, or by powers of two or ten), a legend,
/// one line per series or marks alone, error bars; readable on light and dark backgrounds, in
/// colour and without (each series also has its own dash pattern). Several plots may stand in one
/// document.
///
/// Shapes:  Points are (x, y) in the data's units; a non-finite point breaks its line, and so does
///          one that a logarithmic axis cannot show (0 or less).
/// Errors:  None. A plot without points is an empty frame.
/// Threads: None; pure functions.
/// Tests:   tests/lab/report/svg_plot_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tributary::lab {

struct PlotPoint {
  double x;
  double y;
  double error = 0.0;  ///< Half the length of the error bar, in y's unit; 0 for none.
};

struct PlotSeries {
  std::string name;  ///< Shown in the legend.
  std::vector<PlotPoint> points;
  bool marks_only = false;  ///< Hollow circles without a line, for single values (a paper's).
};

enum class PlotScale : uint8_t { kLinear, kLog2, kLog10 };

struct LinePlot {
  std::string title = {};
  std::string x_label = {};  ///< With its unit.
  std::string y_label = {};  ///< With its unit.
  std::vector<PlotSeries> series = {};
  uint32_t width_px = 800;
  uint32_t height_px = 450;
  PlotScale x_scale = PlotScale::kLinear;
  PlotScale y_scale = PlotScale::kLinear;
  bool y_from_zero = false;  ///< A linear y axis then begins at 0 at most.
};

/// A complete SVG document.
[[nodiscard]] std::string render_svg(const LinePlot& plot);

/// One document with the plots below each other. Its title is that of the first.
[[nodiscard]] std::string render_svg(std::span<const LinePlot> plots);

/// Round numbers (1, 2 or 5 times a power of ten apart) that cover [low, high], ascending, about
/// `count_wanted` of them, at least two. The first is <= low, the last >= high.
[[nodiscard]] std::vector<double> axis_ticks(double low, double high, uint32_t count_wanted);

}  // namespace tributary::lab
