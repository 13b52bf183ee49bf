// SPDX-License-Identifier: Apache-2.0
#include "lab/report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

namespace tributary::lab {
namespace {

/// Margins around the plotted area in pixels; they hold tick labels and axis names.
constexpr double kLeft = 64;
constexpr double kRight = 20;
constexpr double kTop = 44;
constexpr double kBottom = 52;

constexpr uint32_t kStyles = 6;
/// One per series, repeated cyclically. Distinguishable in grey.
constexpr std::array<std::string_view, kStyles> kDashes = {"none",     "8 4", "2 3",
                                                           "10 3 2 3", "5 5", "1 5"};

/// Colours by style: blue, orange, green, purple, red, grey; the dark set is lighter. Each has a
/// contrast of at least 3 : 1 against its background. Plain classes instead of variables: viewers
/// without the media query still show the light set.
constexpr std::string_view kStyleSheet = R"(<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .paper { fill: #ffffff; }
  .grid { stroke: #d8dde3; stroke-width: 1; }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
  .mark { fill: none; stroke-width: 2; }
  .bar { fill: none; stroke-width: 1; }
  .s0 { stroke: #0b63b5; } .s1 { stroke: #b85a00; } .s2 { stroke: #1a7f37; }
  .s3 { stroke: #8250df; } .s4 { stroke: #c4262e; } .s5 { stroke: #6e7781; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .paper { fill: #0d1117; }
    .grid { stroke: #30363d; }
    .s0 { stroke: #6cb6ff; } .s1 { stroke: #f0a44b; } .s2 { stroke: #57c765; }
    .s3 { stroke: #c9a6ff; } .s4 { stroke: #ff8078; } .s5 { stroke: #a0a8b0; }
  }
</style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

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

/// Maps data to pixels along one axis. `pixel_first` is the position of ticks.front().
struct Axis {
  std::vector<double> ticks;
  double pixel_first;
  double pixel_last;
  PlotScale scale = PlotScale::kLinear;

  [[nodiscard]] double pixel(double value) const {
    const double first = on_scale(scale, ticks.front());
    const double last = on_scale(scale, ticks.back());
    const double part = (on_scale(scale, value) - first) / (last - first);
    return pixel_first + part * (pixel_last - pixel_first);
  }
};

bool can_show(PlotScale scale, double value) {
  return std::isfinite(value) && (scale == PlotScale::kLinear || value > 0.0);
}

bool can_show(const LinePlot& plot, const PlotPoint& point) {
  return can_show(plot.x_scale, point.x) && can_show(plot.y_scale, point.y);
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

/// Returns ticks over the x or y of all visible points; they start at 0 or 1 if there is none.
std::vector<double> ticks_of(const LinePlot& plot, double PlotPoint::*coordinate, uint32_t count) {
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
    return low <= high ? axis_ticks(low, high, count) : axis_ticks(0.0, 1.0, count);
  }
  const double base = scale == PlotScale::kLog2 ? 2.0 : 10.0;
  return low <= high ? power_ticks(low, high, base) : power_ticks(1.0, base, base);
}

void draw_axes(const LinePlot& plot, const Axis& x, const Axis& y, std::string& svg) {
  const auto out = std::back_inserter(svg);
  for (const double tick : x.ticks) {
    fmt::format_to(out,
                   "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" "
                   "y2=\"{2:.1f}\"/>\n<text x=\"{0:.1f}\" y=\"{3:.1f}\" "
                   "text-anchor=\"middle\">{4:g}</text>\n",
                   x.pixel(tick), y.pixel_first, y.pixel_last, y.pixel_first + 18, tick);
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
                 "<text transform=\"translate(18 {:.1f}) rotate(-90)\" "
                 "text-anchor=\"middle\">{}</text>\n",
                 y_middle, escaped(plot.y_label));
  fmt::format_to(out, "<text class=\"title\" x=\"{:.1f}\" y=\"26\">{}</text>\n", x.pixel_first,
                 escaped(plot.title));
}

void draw_error_bars(const LinePlot& plot, const PlotSeries& series, size_t style, const Axis& x,
                     const Axis& y, std::string& svg) {
  constexpr double kCap = 4;  // Half the width of a bar's end caps, in pixels.
  for (const PlotPoint& point : series.points) {
    if (point.error == 0.0 || !can_show(plot, point)) continue;
    if (!can_show(plot.y_scale, point.y - point.error)) continue;
    const double middle = x.pixel(point.x);
    fmt::format_to(std::back_inserter(svg),
                   "<path class=\"bar s{0}\" d=\"M{1:.1f} {2:.1f}h{3:.1f}M{4:.1f} {2:.1f}V{5:.1f}"
                   "M{1:.1f} {5:.1f}h{3:.1f}\"/>\n",
                   style, middle - kCap, y.pixel(point.y + point.error), 2 * kCap, middle,
                   y.pixel(point.y - point.error));
  }
}

void draw_series(const LinePlot& plot, size_t index, const Axis& x, const Axis& y,
                 std::string& svg) {
  const auto out = std::back_inserter(svg);
  const PlotSeries& series = plot.series[index];
  const size_t style = index % kStyles;
  draw_error_bars(plot, series, style, x, y, svg);
  if (series.marks_only) {
    for (const PlotPoint& point : series.points) {
      if (!can_show(plot, point)) continue;
      fmt::format_to(out, "<circle class=\"mark s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n",
                     style, x.pixel(point.x), y.pixel(point.y));
    }
    return;
  }
  fmt::format_to(out, "<path class=\"line s{}\" stroke-dasharray=\"{}\" d=\"", style,
                 kDashes[style]);
  bool pen_down = false;
  for (const PlotPoint& point : series.points) {
    const bool shown = can_show(plot, point);
    if (shown) {
      fmt::format_to(out, "{}{:.1f} {:.1f}", pen_down ? "L" : "M", x.pixel(point.x),
                     y.pixel(point.y));
    }
    pen_down = shown;
  }
  svg += "\"/>\n";
}

void draw_legend_sample(const PlotSeries& series, size_t style, double left, double middle,
                        std::string& svg) {
  const auto out = std::back_inserter(svg);
  if (series.marks_only) {
    fmt::format_to(out, "<circle class=\"mark s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n", style,
                   left + 16, middle);
    return;
  }
  fmt::format_to(out,
                 "<path class=\"line s{}\" stroke-dasharray=\"{}\" d=\"M{:.1f} {:.1f}h32\"/>\n",
                 style, kDashes[style], left, middle);
}

/// The position of a legend in pixels.
struct Box {
  double left;
  double top;
  double width;
  double height;

  [[nodiscard]] bool holds(double x, double y) const {
    return x >= left && x <= left + width && y >= top && y <= top + height;
  }
};

/// Returns the number of sample points of the plot's lines inside `box`, kSamples per line segment.
uint32_t covered_samples(const LinePlot& plot, const Axis& x, const Axis& y, const Box& box) {
  constexpr uint32_t kSamples = 16;
  uint32_t covered = 0;
  for (const PlotSeries& series : plot.series) {
    for (size_t i = 0; i < series.points.size(); i++) {
      const PlotPoint& to = series.points[i];
      const PlotPoint& from = series.points[i == 0 || series.marks_only ? i : i - 1];
      if (!can_show(plot, from) || !can_show(plot, to)) continue;
      for (uint32_t sample = 1; sample <= kSamples; sample++) {
        const double part = static_cast<double>(sample) / kSamples;
        const double at_x = x.pixel(from.x) + part * (x.pixel(to.x) - x.pixel(from.x));
        const double at_y = y.pixel(from.y) + part * (y.pixel(to.y) - y.pixel(from.y));
        covered += box.holds(at_x, at_y) ? 1 : 0;
      }
    }
  }
  return covered;
}

/// Returns the corner where a box of this size covers the fewest samples. Ties go to the first of
/// top right, top left, bottom right, bottom left.
Box least_covering(const LinePlot& plot, const Axis& x, const Axis& y, double width,
                   double height) {
  constexpr double kGap = 8;
  const double left = x.pixel_first + kGap;
  const double right = x.pixel_last - kGap - width;
  const double top = y.pixel_last + kGap;
  const double bottom = y.pixel_first - kGap - height;
  const std::array<Box, 4> corners{{{right, top, width, height},
                                    {left, top, width, height},
                                    {right, bottom, width, height},
                                    {left, bottom, width, height}}};
  return *std::min_element(corners.begin(), corners.end(), [&](const Box& a, const Box& b) {
    return covered_samples(plot, x, y, a) < covered_samples(plot, x, y, b);
  });
}

/// Draws the legend in a corner, over the lines, on the background colour.
void draw_legend(const LinePlot& plot, const Axis& x, const Axis& y, std::string& svg) {
  if (plot.series.empty()) return;
  const auto out = std::back_inserter(svg);
  size_t longest = 0;
  for (const PlotSeries& series : plot.series) longest = std::max(longest, series.name.size());
  constexpr double kRow = 20;
  // About 7 pixels per letter at 13 px; excess width is harmless.
  const double width = 56 + 7.0 * static_cast<double>(longest);
  const double height = kRow * static_cast<double>(plot.series.size()) + 8;
  const Box box = least_covering(plot, x, y, width, height);
  const double left = box.left;
  fmt::format_to(out,
                 "<rect class=\"paper grid\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                 "height=\"{:.1f}\"/>\n",
                 left, box.top, width, height);
  double middle = box.top + 4 + kRow / 2;
  for (size_t i = 0; i < plot.series.size(); i++, middle += kRow) {
    draw_legend_sample(plot.series[i], i % kStyles, left + 8, middle, svg);
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left + 46, middle + 4,
                   escaped(plot.series[i].name));
  }
}

void draw_plot(const LinePlot& plot, std::string& svg) {
  const double width = plot.width_px;
  const double height = plot.height_px;
  const Axis x{ticks_of(plot, &PlotPoint::x, 8), kLeft, width - kRight, plot.x_scale};
  // The y axis points upwards.
  const Axis y{ticks_of(plot, &PlotPoint::y, 6), height - kBottom, kTop, plot.y_scale};
  draw_axes(plot, x, y, svg);
  for (size_t i = 0; i < plot.series.size(); i++) draw_series(plot, i, x, y, svg);
  draw_legend(plot, x, y, svg);
}

}  // namespace

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

std::string render_svg(const LinePlot& plot) { return render_svg(std::span(&plot, 1)); }

std::string render_svg(std::span<const LinePlot> plots) {
  uint32_t width = 0;
  uint32_t height = 0;
  for (const LinePlot& plot : plots) {
    width = std::max(width, plot.width_px);
    height += plot.height_px;
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\">\n<title>{2}</title>\n",
      width, height, plots.empty() ? std::string() : escaped(plots.front().title));
  svg += kStyleSheet;
  svg += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  uint32_t top = 0;
  for (const LinePlot& plot : plots) {
    if (top > 0) svg += fmt::format("<g transform=\"translate(0 {})\">\n", top);
    draw_plot(plot, svg);
    if (top > 0) svg += "</g>\n";
    top += plot.height_px;
  }
  svg += "</svg>\n";
  return svg;
}

}  // namespace tributary::lab
