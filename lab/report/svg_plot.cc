// SPDX-License-Identifier: Apache-2.0
#include "lab/report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "lab/report/markup.h"
#include "lab/report/plot_axis.h"
#include "lab/report/series_style.h"

namespace tributary::lab {
namespace {

/// Margins around the plotted area in pixels; they hold tick labels and axis names.
constexpr double kLeft = 72;
constexpr double kRight = 20;
constexpr double kTop = 44;
constexpr double kBottom = 52;

/// Lines with more points have markers at some of them only, which would otherwise cover the line.
constexpr size_t kMarkedPointsMax = 24;
constexpr size_t kMarkersOfLongLine = 10;
constexpr double kMarkerRadius = 3.5;
constexpr double kMarkRadius = 5;  ///< Radius of points without a line.

/// By variant of a system, repeated cyclically.
constexpr std::array<std::string_view, 6> kDashes = {"none",     "8 4", "2 3",
                                                     "10 3 2 3", "5 5", "1 5"};

/// Every document draws its own background, light or, if the reader's settings say so, dark. It is
/// therefore readable on any page, also where a viewer ignores the media query. Plain classes
/// instead of variables, which some viewers do not know.
constexpr std::string_view kStyleSheet = R"(<style>
  text {{ font: 13px system-ui, sans-serif; fill: #1f2328; }}
  .title {{ font-size: 16px; font-weight: 600; }}
  .paper {{ fill: {0}; }}
  .grid {{ stroke: #d8dde3; stroke-width: 1; }}
  .line {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}
  .mark {{ fill: none; stroke-width: 2; }}
  .bar {{ fill: none; stroke-width: 1; }}
  .band {{ stroke: none; fill-opacity: 0.18; }}
{1}  @media (prefers-color-scheme: dark) {{
  text {{ fill: #e6edf3; }}
  .paper {{ fill: {2}; }}
  .grid {{ stroke: #30363d; }}
{3}  }}
</style>
)";

/// The appearance of one series.
struct Look {
  size_t colour = 0;
  size_t shape = 0;  ///< Shape of the markers.
  bool has_markers = false;
  double radius = kMarkerRadius;
  bool hollow = false;           ///< Markers without filling, so that others show through them.
  std::string dash = {};         ///< Attributes of the line.
  std::string legend_dash = {};  ///< The same in the legend.
  std::string name = {};         ///< For the legend.
};

/// A plot with the pixels of its data and the appearance of its series.
struct Drawing {
  const LinePlot& plot;
  Axis x;
  Axis y;
  std::vector<Look> looks;  ///< Shape [plot.series].
};

// --- Coincident series ---------------------------------------------------------------------------

std::vector<const PlotPoint*> shown_points(const LinePlot& plot, const PlotSeries& series) {
  std::vector<const PlotPoint*> shown;
  for (const PlotPoint& point : series.points) {
    if (can_show(plot, point)) shown.push_back(&point);
  }
  return shown;
}

/// Returns whether a reader cannot tell the lines apart: every point lies on the other's.
bool coincide(const Drawing& drawing, const PlotSeries& a, const PlotSeries& b) {
  constexpr double kPixels = 2;  // A line's width.
  const auto of_a = shown_points(drawing.plot, a);
  const auto of_b = shown_points(drawing.plot, b);
  const auto is_near = [&](const PlotPoint* p, const PlotPoint* q) {
    return std::fabs(drawing.x.pixel(p->x) - drawing.x.pixel(q->x)) <= kPixels &&
           std::fabs(drawing.y.pixel(p->y) - drawing.y.pixel(q->y)) <= kPixels;
  };
  return of_a.size() > 1 && std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), is_near);
}

/// Returns whether the series have the same values, apart from rounding.
bool are_equal(const LinePlot& plot, const PlotSeries& a, const PlotSeries& b) {
  const auto of_a = shown_points(plot, a);
  const auto of_b = shown_points(plot, b);
  const auto is_equal = [](double p, double q) {
    return std::fabs(p - q) <= 1e-9 * std::max(std::fabs(p), std::fabs(q));
  };
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                    [&](const PlotPoint* p, const PlotPoint* q) {
                      return is_equal(p->x, q->x) && is_equal(p->y, q->y);
                    });
}

/// Returns for each series the first one that it coincides with: itself, or an earlier one.
std::vector<size_t> leaders_of(const Drawing& drawing) {
  const std::vector<PlotSeries>& all = drawing.plot.series;
  std::vector<size_t> leaders;
  for (size_t i = 0; i < all.size(); i++) {
    size_t leader = 0;
    while (leader < i && (leaders[leader] != leader || all[i].marks_only ||
                          all[leader].marks_only || !coincide(drawing, all[i], all[leader]))) {
      leader++;
    }
    leaders.push_back(leader);
  }
  return leaders;
}

std::string remark(const LinePlot& plot, size_t index, size_t leader) {
  const bool equal = are_equal(plot, plot.series[index], plot.series[leader]);
  return fmt::format(" ({} {})", equal ? "same as" : "close to", plot.series[leader].name);
}

/// Makes coincident series visible: their dashes take turns along the line, their markers grow, and
/// the legend says whether their values are the same or only as close as a line is wide.
void separate_coincident(Drawing& drawing) {
  constexpr double kDash = 8;
  const std::vector<size_t> leaders = leaders_of(drawing);
  for (size_t leader = 0; leader < leaders.size(); leader++) {
    const auto count = static_cast<size_t>(std::count(leaders.begin(), leaders.end(), leader));
    size_t turn = 0;
    for (size_t i = leader; count > 1 && i < leaders.size(); i++) {
      if (leaders[i] != leader) continue;
      Look& look = drawing.looks[i];
      const auto turns = static_cast<double>(turn);
      look.dash = fmt::format("stroke-dasharray=\"{} {}\" stroke-dashoffset=\"{}\"", kDash,
                              kDash * static_cast<double>(count - 1), 0.0 - kDash * turns);
      look.radius += 2.5 * turns;
      look.hollow = turn > 0;
      if (turn > 0) look.name += remark(drawing.plot, i, leader);
      turn++;
    }
  }
}

std::vector<Look> looks_of(const LinePlot& plot) {
  std::vector<std::string> names;
  for (const PlotSeries& series : plot.series) names.push_back(series.name);
  const std::vector<SeriesStyle> styles = styles_of(names);
  std::vector<Look> looks;
  for (size_t i = 0; i < names.size(); i++) {
    const PlotSeries& series = plot.series[i];
    Look look{.colour = styles[i].colour,
              .shape = styles[i].colour + styles[i].variant,
              .hollow = series.marks_only,
              .name = names[i]};
    // A line of one point is its marker.
    look.has_markers = series.marks_only || series.points.size() == 1 || !series.reference;
    if (series.marks_only) look.radius = kMarkRadius;
    // Long lines also differ in their dashes, so that one shows through another. A reference is
    // never solid.
    size_t dash = series.points.size() <= kMarkedPointsMax ? styles[i].variant : i;
    if (series.reference) dash = styles[i].variant + 1;
    look.dash = fmt::format("stroke-dasharray=\"{}\"", kDashes[dash % kDashes.size()]);
    look.legend_dash = look.dash;
    looks.push_back(std::move(look));
  }
  return looks;
}

// --- Series --------------------------------------------------------------------------------------

bool can_show_error(const LinePlot& plot, const PlotPoint& point) {
  return can_show(plot, point) && can_show(plot.y_scale, point.y - point.error);
}

void draw_error_bar(const Drawing& drawing, size_t index, const PlotPoint& point,
                    std::string& svg) {
  constexpr double kCap = 4;  // Half the width of a bar's end caps, in pixels.
  const auto& [plot, x, y, looks] = drawing;
  if (point.error == 0.0 || !can_show_error(plot, point)) return;
  const double middle = x.pixel(point.x);
  fmt::format_to(std::back_inserter(svg),
                 "<path class=\"bar s{0}\" d=\"M{1:.1f} {2:.1f}h{3:.1f}M{4:.1f} {2:.1f}V{5:.1f}"
                 "M{1:.1f} {5:.1f}h{3:.1f}\"/>\n",
                 looks[index].colour, middle - kCap, y.pixel(point.y + point.error), 2 * kCap,
                 middle, y.pixel(point.y - point.error));
}

void draw_error_bars(const Drawing& drawing, size_t index, std::string& svg) {
  for (const PlotPoint& point : drawing.plot.series[index].points) {
    draw_error_bar(drawing, index, point, svg);
  }
}

/// Draws the area between the upper and lower errors of points that follow each other visibly. A
/// point without a neighbour gets an error bar: its area has no width.
void draw_band(const Drawing& drawing, size_t index, std::string& svg) {
  const auto out = std::back_inserter(svg);
  const auto& [plot, x, y, looks] = drawing;
  const auto is_shown = [&drawing](const PlotPoint& point) {
    return can_show_error(drawing.plot, point);
  };
  const std::vector<PlotPoint>& points = plot.series[index].points;
  for (auto first = points.begin(); first != points.end();) {
    if (!is_shown(*first)) {
      ++first;
      continue;
    }
    const auto last = std::find_if_not(first, points.end(), is_shown);
    if (last - first == 1) {
      draw_error_bar(drawing, index, *first, svg);
      first = last;
      continue;
    }
    fmt::format_to(out, "<path class=\"band f{}\" d=\"M", looks[index].colour);
    for (auto at = first; at != last; ++at) {
      fmt::format_to(out, "{:.1f} {:.1f}L", x.pixel(at->x), y.pixel(at->y + at->error));
    }
    for (auto at = last; at != first;) {
      --at;
      fmt::format_to(out, "{:.1f} {:.1f}{}", x.pixel(at->x), y.pixel(at->y - at->error),
                     at == first ? "Z\"/>\n" : "L");
    }
    first = last;
  }
}

/// Returns the outline of a marker around the origin, by its shape: square, two triangles, diamond,
/// triangles to the sides.
std::string outline(size_t shape, double radius) {
  const double side = 0.9 * radius;
  const double tip = 1.2 * radius;
  switch (shape) {
    case 0:
      return fmt::format("M{0:.1f} {0:.1f}h{1:.1f}v{1:.1f}h{2:.1f}Z", -side, 2 * side, -2 * side);
    case 1:
      return fmt::format("M0 {:.1f}L{:.1f} {:.1f}H{:.1f}Z", -tip, tip, radius, -tip);
    case 2:
      return fmt::format("M0 {:.1f}L{:.1f} 0L0 {:.1f}L{:.1f} 0Z", -tip, tip, tip, -tip);
    case 3:
      return fmt::format("M0 {:.1f}L{:.1f} {:.1f}H{:.1f}Z", tip, tip, -radius, -tip);
    default:
      return fmt::format("M{:.1f} 0L{:.1f} {:.1f}V{:.1f}Z", tip, -radius, tip, -tip);
  }
}

void draw_marker(const Look& look, double x, double y, std::string& svg) {
  constexpr size_t kShapes = 6;  // A circle, and those of outline().
  const auto out = std::back_inserter(svg);
  const std::string classes =
      look.hollow ? fmt::format("mark s{}", look.colour) : fmt::format("dot f{}", look.colour);
  const size_t shape = look.shape % kShapes;
  if (shape == 0) {
    fmt::format_to(out, "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/>\n", classes, x,
                   y, look.radius);
    return;
  }
  fmt::format_to(out, "<path class=\"{}\" transform=\"translate({:.1f} {:.1f})\" d=\"{}\"/>\n",
                 classes, x, y, outline(shape - 1, look.radius));
}

void draw_line(const Drawing& drawing, size_t index, std::string& svg) {
  const auto out = std::back_inserter(svg);
  const Look& look = drawing.looks[index];
  fmt::format_to(out, "<path class=\"line s{}\" {} d=\"", look.colour, look.dash);
  bool pen_down = false;
  for (const PlotPoint& point : drawing.plot.series[index].points) {
    const bool shown = can_show(drawing.plot, point);
    if (shown) {
      fmt::format_to(out, "{}{:.1f} {:.1f}", pen_down ? "L" : "M", drawing.x.pixel(point.x),
                     drawing.y.pixel(point.y));
    }
    pen_down = shown;
  }
  svg += "\"/>\n";
}

/// Draws markers at all points, or at some of a long line, each line at others.
void draw_markers(const Drawing& drawing, size_t index, std::string& svg) {
  const PlotSeries& series = drawing.plot.series[index];
  const auto points = shown_points(drawing.plot, series);
  size_t first = 0;
  size_t step = 1;
  if (points.size() > kMarkedPointsMax && !series.marks_only) {
    step = points.size() / kMarkersOfLongLine;
    first = step * index / drawing.plot.series.size();
  }
  for (size_t i = first; i < points.size(); i += step) {
    draw_marker(drawing.looks[index], drawing.x.pixel(points[i]->x), drawing.y.pixel(points[i]->y),
                svg);
  }
}

void draw_series(const Drawing& drawing, size_t index, std::string& svg) {
  const PlotSeries& series = drawing.plot.series[index];
  (series.band ? draw_band : draw_error_bars)(drawing, index, svg);
  if (!series.marks_only) draw_line(drawing, index, svg);
  if (drawing.looks[index].has_markers) draw_markers(drawing, index, svg);
}

// --- Legend --------------------------------------------------------------------------------------

constexpr double kLegendRow = 20;
constexpr double kLegendSample = 32;

/// Returns the places of the legend's entries below the plot, from left to right, then downwards.
/// They depend on the names alone, so that the document's height is known before it is drawn.
struct LegendLayout {
  struct Place {
    double left;
    double row;
  };
  std::vector<Place> places;
  double height = 0;
};

LegendLayout legend_of(const Drawing& drawing) {
  constexpr double kLetter = 7;  // About, at 13 px. Excess width is harmless.
  constexpr double kGap = 24;
  LegendLayout layout;
  double left = kLeft;
  double row = 0;
  for (const Look& look : drawing.looks) {
    const double width = kLegendSample + 8 + kLetter * static_cast<double>(look.name.size());
    if (left > kLeft && left + width > drawing.plot.width_px - kRight) {
      left = kLeft;
      row++;
    }
    layout.places.push_back({left, row});
    left += width + kGap;
  }
  if (!layout.places.empty()) layout.height = (row + 1) * kLegendRow + 8;
  return layout;
}

void draw_legend(const Drawing& drawing, const LegendLayout& layout, std::string& svg) {
  const auto out = std::back_inserter(svg);
  for (size_t i = 0; i < drawing.looks.size(); i++) {
    const Look& look = drawing.looks[i];
    const double left = layout.places[i].left;
    const double middle = drawing.plot.height_px + (layout.places[i].row + 0.5) * kLegendRow;
    if (!drawing.plot.series[i].marks_only) {
      fmt::format_to(out, "<path class=\"line s{}\" {} d=\"M{:.1f} {:.1f}h{}\"/>\n", look.colour,
                     look.legend_dash, left, middle, kLegendSample);
    }
    if (look.has_markers) draw_marker(look, left + kLegendSample / 2, middle, svg);
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left + kLegendSample + 8,
                   middle + 4, escaped(look.name));
  }
}

// --- Documents -----------------------------------------------------------------------------------

Drawing drawing_of(const LinePlot& plot) {
  // The y axis points upwards.
  Drawing drawing{
      .plot = plot,
      .x = {ticks_of(plot, &PlotPoint::x, 8), kLeft, plot.width_px - kRight, plot.x_scale},
      .y = {ticks_of(plot, &PlotPoint::y, 6), plot.height_px - kBottom, kTop, plot.y_scale},
      .looks = looks_of(plot)};
  separate_coincident(drawing);
  return drawing;
}

}  // namespace

std::string render_svg(const LinePlot& plot) { return render_svg(std::span(&plot, 1)); }

std::string render_svg(std::span<const LinePlot> plots) {
  std::string body;
  uint32_t width = 0;
  double height = 0;
  for (const LinePlot& plot : plots) {
    const Drawing drawing = drawing_of(plot);
    const LegendLayout legend = legend_of(drawing);
    if (height > 0) body += fmt::format("<g transform=\"translate(0 {})\">\n", height);
    draw_axes(plot, drawing.x, drawing.y, body);
    for (size_t i = 0; i < plot.series.size(); i++) draw_series(drawing, i, body);
    draw_legend(drawing, legend, body);
    if (height > 0) body += "</g>\n";
    width = std::max(width, plot.width_px);
    height += plot.height_px + legend.height;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" role=\"img\">\n<title>{2}</title>\n",
             width, height, plots.empty() ? std::string() : escaped(plots.front().title)) +
         fmt::format(kStyleSheet, kLightBackground, colour_rules(/*dark=*/false), kDarkBackground,
                     colour_rules(/*dark=*/true)) +
         "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n" + body + "</svg>\n";
}

}  // namespace tributary::lab
