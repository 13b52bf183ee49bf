// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

namespace tributary::demo {
namespace {

/// Room around the plotted area, in pixels: tick labels and axis names stand in it.
constexpr double kLeft = 64;
constexpr double kRight = 20;
constexpr double kTop = 44;
constexpr double kBottom = 52;

constexpr uint32_t kStyles = 6;
/// One per series, then again from the first. Thick and far apart enough to tell in grey.
constexpr std::array<std::string_view, kStyles> kDashes = {"none",     "8 4", "2 3",
                                                           "10 3 2 3", "5 5", "1 5"};

/// Colours by style: blue, orange, green, purple, red, grey; the dark set is lighter. Each has a
/// contrast of at least 3 : 1 against its background. Plain classes, no variables: viewers that do
/// not know the media query still show the light set.
constexpr std::string_view kStyleSheet = R"(<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .paper { fill: #ffffff; }
  .grid { stroke: #d8dde3; stroke-width: 1; }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
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

/// From data to pixels along one axis. `pixel_first` is where ticks.front() lies.
struct Axis {
  std::vector<double> ticks;
  double pixel_first;
  double pixel_last;

  [[nodiscard]] double pixel(double value) const {
    const double part = (value - ticks.front()) / (ticks.back() - ticks.front());
    return pixel_first + part * (pixel_last - pixel_first);
  }
};

bool is_finite(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

/// Ticks over all finite points' x or y; [0, 1] when there is none.
std::vector<double> ticks_of(const LinePlot& plot, double PlotPoint::*coordinate, uint32_t count) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      if (!is_finite(point)) continue;
      low = std::min(low, point.*coordinate);
      high = std::max(high, point.*coordinate);
    }
  }
  return low <= high ? axis_ticks(low, high, count) : axis_ticks(0.0, 1.0, count);
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

void draw_series(const PlotSeries& series, size_t index, const Axis& x, const Axis& y,
                 std::string& svg) {
  const auto out = std::back_inserter(svg);
  const size_t style = index % kStyles;
  fmt::format_to(out, "<path class=\"line s{}\" stroke-dasharray=\"{}\" d=\"", style,
                 kDashes[style]);
  bool pen_down = false;
  for (const PlotPoint& point : series.points) {
    if (is_finite(point)) {
      fmt::format_to(out, "{}{:.1f} {:.1f}", pen_down ? "L" : "M", x.pixel(point.x),
                     y.pixel(point.y));
    }
    pen_down = is_finite(point);
  }
  svg += "\"/>\n";
}

/// Top right, over the lines: the paper's colour behind it keeps it readable.
void draw_legend(const LinePlot& plot, const Axis& x, const Axis& y, std::string& svg) {
  if (plot.series.empty()) return;
  const auto out = std::back_inserter(svg);
  size_t longest = 0;
  for (const PlotSeries& series : plot.series) longest = std::max(longest, series.name.size());
  constexpr double kRow = 20;
  // About 7 pixels a letter at 13 px; too wide is harmless.
  const double width = 56 + 7.0 * static_cast<double>(longest);
  const double left = x.pixel_last - width - 8;
  fmt::format_to(out,
                 "<rect class=\"paper grid\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                 "height=\"{:.1f}\"/>\n",
                 left, y.pixel_last + 8, width, kRow * static_cast<double>(plot.series.size()) + 8);
  double middle = y.pixel_last + 8 + 4 + kRow / 2;
  for (size_t i = 0; i < plot.series.size(); i++, middle += kRow) {
    fmt::format_to(out,
                   "<path class=\"line s{0}\" stroke-dasharray=\"{1}\" "
                   "d=\"M{2:.1f} {3:.1f}h32\"/>\n<text x=\"{4:.1f}\" y=\"{5:.1f}\">{6}</text>\n",
                   i % kStyles, kDashes[i % kStyles], left + 8, middle, left + 46, middle + 4,
                   escaped(plot.series[i].name));
  }
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, uint32_t count_wanted) {
  if (!(high > low)) high = low + std::max(1.0, std::fabs(low));
  const double rough = (high - low) / std::max(1U, count_wanted);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double ratio = rough / power;  // In [1, 10).
  const double step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
  std::vector<double> ticks;
  // A thousandth of a step forgives what rounding adds when `low` is a tick itself.
  const double first = std::floor(low / step + 1e-3);
  const double last = std::ceil(high / step - 1e-3);
  for (double i = first; i <= last; i++) ticks.push_back(i * step);
  return ticks;
}

std::string render_svg(const LinePlot& plot) {
  const double width = plot.width_px;
  const double height = plot.height_px;
  const Axis x{ticks_of(plot, &PlotPoint::x, 8), kLeft, width - kRight};
  const Axis y{ticks_of(plot, &PlotPoint::y, 6), height - kBottom, kTop};  // Upwards.

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\">\n<title>{2}</title>\n",
      plot.width_px, plot.height_px, escaped(plot.title));
  svg += kStyleSheet;
  svg += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  draw_axes(plot, x, y, svg);
  for (size_t i = 0; i < plot.series.size(); i++) draw_series(plot.series[i], i, x, y, svg);
  draw_legend(plot, x, y, svg);
  svg += "</svg>\n";
  return svg;
}

}  // namespace tributary::demo
