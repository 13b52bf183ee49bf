// SPDX-License-Identifier: Apache-2.0
/// @file
/// Line plots as SVG text: axes with round ticks (linear, or by powers of two or ten), lines or
/// marks, error bars or bands, a legend below. Readable on light and dark backgrounds.
///
/// Model:   A system has one colour in all plots (series_style.h). Points have markers; of a long
///          series, some have. Coincident series are drawn in turns; the legend tells which ones.
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
  double error = 0.0;  ///< Half the length of the error bar or band, in y's unit; 0 for none.
};

struct PlotSeries {
  std::string name;  ///< Shown in the legend. Names the system, whose colour it gets.
  std::vector<PlotPoint> points;
  bool marks_only = false;  ///< Hollow circles without a line, for single values such as a paper's.
  bool band = false;        ///< Errors as a band along the line instead of bars.
  bool reference = false;   ///< A bound or a stated value: a dashed line without markers.
};

enum class PlotScale : uint8_t { kLinear, kLog2, kLog10 };

struct LinePlot {
  std::string title = {};
  std::string x_label = {};  ///< Including the unit.
  std::string y_label = {};  ///< Including the unit.
  std::vector<PlotSeries> series = {};
  uint32_t width_px = 800;
  uint32_t height_px = 450;  ///< Without the legend, whose height follows from its names.
  PlotScale x_scale = PlotScale::kLinear;
  PlotScale y_scale = PlotScale::kLinear;
  bool y_from_zero = false;  ///< Extends a linear y axis to 0.
};

/// Returns a complete SVG document.
[[nodiscard]] std::string render_svg(const LinePlot& plot);

/// Returns one document with the plots below each other, titled after the first.
[[nodiscard]] std::string render_svg(std::span<const LinePlot> plots);

}  // namespace tributary::lab
