// SPDX-License-Identifier: Apache-2.0
/// @file
/// The axes of a plot: ticks, and the way from data to pixels.
///
/// Units:   Ticks in the data's units; positions in pixels.
/// Threads: None; pure functions.
/// Tests:   tests/lab/report/plot_axis_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/report/svg_plot.h"

namespace tributary::lab {

/// Maps data to pixels along one axis. `pixel_first` is the position of ticks.front().
struct Axis {
  std::vector<double> ticks;
  double pixel_first;
  double pixel_last;
  PlotScale scale = PlotScale::kLinear;

  [[nodiscard]] double pixel(double value) const;
};

/// Returns whether an axis of this scale has a place for the value.
[[nodiscard]] bool can_show(PlotScale scale, double value);
[[nodiscard]] bool can_show(const LinePlot& plot, const PlotPoint& point);

/// Returns about `count_wanted` (at least two) ascending round numbers, 1, 2 or 5 times a power of
/// ten apart, that cover [low, high]. The first is <= low, the last >= high.
[[nodiscard]] std::vector<double> axis_ticks(double low, double high, uint32_t count_wanted);

/// Returns ticks over the x or y of all visible points; they start at 0 or 1 if there is none.
[[nodiscard]] std::vector<double> ticks_of(const LinePlot& plot, double PlotPoint::*coordinate,
                                           uint32_t count_wanted);

/// Appends the grid, the numbers at it, and the names of the axes and of the plot.
void draw_axes(const LinePlot& plot, const Axis& x, const Axis& y, std::string& svg);

}  // namespace tributary::lab
