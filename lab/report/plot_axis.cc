// SPDX-License-Identifier: Apache-2.0
#include "lab/report/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include "lab/report/markup.h"

namespace tributary::lab {
namespace {

/// Returns the coordinate of a value on an axis: the value itself, or its logarithm.
double on_scale(PlotScale scale, double value) {
  switch (scale) {
    case PlotScale::kLinear:
      break;
    case PlotScale::kLog2:
      return std::log2(value);
    case PlotScale::kLog10:
      return std::log10(value);
  }
  return value;
}

/// Returns whole powers of `base` that cover [low, high], at least two.
std::vector<double> power_ticks(double low, double high, double base) {
  double tick = 1.0;
  // Multiplication is exact for powers of two and short for powers of ten.
  while (tick > low) tick /= base;
  while (tick * base <= low) tick *= base;
  std::vector<double> ticks{tick};
  while (ticks.size() < 2 || ticks.back() < high) ticks.push_back(ticks.back() * base);
  return ticks;
}

}  // namespace

double Axis::pixel(double value) const {
  const double first = on_scale(scale, ticks.front());
  const double last = on_scale(scale, ticks.back());
  const double part = (on_scale(scale, value) - first) / (last - first);
  return pixel_first + part * (pixel_last - pixel_first);
}

bool can_show(PlotScale scale, double value) {
  return std::isfinite(value) && (scale == PlotScale::kLinear || value > 0.0);
}

bool can_show(const LinePlot& plot, const PlotPoint& point) {
  return can_show(plot.x_scale, point.x) && can_show(plot.y_scale, point.y);
}

std::vector<double> axis_ticks(double low, double high, uint32_t count_wanted) {
  if (!(high > low)) high = low + std::max(1.0, std::fabs(low));
  const double rough = (high - low) / std::max(1U, count_wanted);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double ratio = rough / power;  // In [1, 10).
  const double step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
  std::vector<double> ticks;
  // A tolerance of a thousandth of a step absorbs rounding errors if `low` is a tick itself.
  const double first = std::floor(low / step + 1e-3);
  const double last = std::ceil(high / step - 1e-3);
  for (double i = first; i <= last; i++) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> ticks_of(const LinePlot& plot, double PlotPoint::*coordinate,
                             uint32_t count_wanted) {
  const bool is_y = coordinate == &PlotPoint::y;
  const PlotScale scale = is_y ? plot.y_scale : plot.x_scale;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  const auto cover = [&](double value) {
    if (!can_show(scale, value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      if (!can_show(plot, point)) continue;
      cover(point.*coordinate - (is_y ? point.error : 0.0));
      cover(point.*coordinate + (is_y ? point.error : 0.0));
    }
  }
  if (scale == PlotScale::kLinear) {
    if (is_y && plot.y_from_zero) cover(0.0);
    return low <= high ? axis_ticks(low, high, count_wanted) : axis_ticks(0.0, 1.0, count_wanted);
  }
  const double base = scale == PlotScale::kLog2 ? 2.0 : 10.0;
  return low <= high ? power_ticks(low, high, base) : power_ticks(1.0, base, base);
}

void draw_axes(const LinePlot& plot, const Axis& x, const Axis& y, std::string& svg) {
  const auto out = std::back_inserter(svg);
  for (const double tick : x.ticks) {
    constexpr double kDigit = 7;  // About, at 13 px.
    const std::string label = fmt::format("{:g}", tick);
    const double half_width = kDigit * static_cast<double>(label.size()) / 2;
    fmt::format_to(out,
                   "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" "
                   "y2=\"{2:.1f}\"/>\n<text x=\"{3:.1f}\" y=\"{4:.1f}\" "
                   "text-anchor=\"middle\">{5}</text>\n",
                   x.pixel(tick), y.pixel_first, y.pixel_last,
                   std::min(x.pixel(tick), plot.width_px - half_width), y.pixel_first + 18, label);
  }
  for (const double tick : y.ticks) {
    fmt::format_to(out,
                   "<line class=\"grid\" x1=\"{1:.1f}\" y1=\"{0:.1f}\" x2=\"{2:.1f}\" "
                   "y2=\"{0:.1f}\"/>\n<text x=\"{3:.1f}\" y=\"{4:.1f}\" "
                   "text-anchor=\"end\">{5:g}</text>\n",
                   y.pixel(tick), x.pixel_first, x.pixel_last, x.pixel_first - 8, y.pixel(tick) + 4,
                   tick);
  }
  const double x_middle = (x.pixel_first + x.pixel_last) / 2;
  const double y_middle = (y.pixel_first + y.pixel_last) / 2;
  fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                 x_middle, y.pixel_first + 40, escaped(plot.x_label));
  fmt::format_to(out,
                 "<text transform=\"translate(14 {:.1f}) rotate(-90)\" "
                 "text-anchor=\"middle\">{}</text>\n",
                 y_middle, escaped(plot.y_label));
  fmt::format_to(out, "<text class=\"title\" x=\"{:.1f}\" y=\"26\">{}</text>\n", x.pixel_first,
                 escaped(plot.title));
}

}  // namespace tributary::lab
