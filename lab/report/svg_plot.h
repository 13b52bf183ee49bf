// SPDX-License-Identifier: Apache-2.0
/// @file
/// Line plots as SVG text: axes with round ticks (linear, or by powers of two or ten), a legend,
/// lines or marks, error bars. Readable on light and dark backgrounds and without colour: each
/// series has its own dash pattern. A document may hold several plots.
///
/// Shapes:  Points are (x, y) in the data's units. A non-finite point breaks its line, and so does
///          a point of 0 or less on a logarithmic axis.
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
  bool marks_only = false;  ///< Hollow circles without a line, for single values such as a paper's.
};

enum class PlotScale : uint8_t { kLinear, kLog2, kLog10 };

struct LinePlot {
  std::string title = {};
  std::string x_label = {};  ///< Including the unit.
  std::string y_label = {};  ///< Including the unit.
  std::vector<PlotSeries> series = {};
  uint32_t width_px = 800;
  uint32_t height_px = 450;
  PlotScale x_scale = PlotScale::kLinear;
  PlotScale y_scale = PlotScale::kLinear;
  bool y_from_zero = false;  ///< Extends a linear y axis to 0.
};

/// Returns a complete SVG document.
[[nodiscard]] std::string render_svg(const LinePlot& plot);

/// Returns one document with the plots below each other, titled after the first.
[[nodiscard]] std::string render_svg(std::span<const LinePlot> plots);

/// Returns about `count_wanted` (at least two) ascending round numbers, 1, 2 or 5 times a power of
/// ten apart, that cover [low, high]. The first is <= low, the last >= high.
[[nodiscard]] std::vector<double> axis_ticks(double low, double high, uint32_t count_wanted);

}  // namespace tributary::lab
