// SPDX-License-Identifier: Apache-2.0
#include "lab/report/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tributary::lab {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

uint32_t occurrences(const std::string& text, const std::string& part) {
  uint32_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

TEST(SvgPlot, PointsMatchTheAxes) {
  // 800 x 450 with margins 72, 20, 44, 52: x from 72 to 780, y from 398 up to 44. Both axes 0 … 10.
  const LinePlot plot{.title = "t", .series = {{"line", {{0, 0}, {5, 10}, {10, 5}}}}};
  EXPECT_THAT(render_svg(plot), HasSubstr("M72.0 398.0L426.0 44.0L780.0 221.0"));
}

TEST(SvgPlot, NamesAreShownAndEscaped) {
  const LinePlot plot{.title = "a < b & c",
                      .x_label = "time \"s\"",
                      .y_label = "loss",
                      .series = {{"<one>", {{0, 0}, {1, 1}}}, {"two", {{0, 1}, {1, 0}}}}};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("time &quot;s&quot;"));
  EXPECT_THAT(svg, HasSubstr("&lt;one&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<one>")));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  // Each series has a line and a legend sample; all text elements are closed.
  EXPECT_EQ(occurrences(svg, "class=\"line s"), 4);
  EXPECT_EQ(occurrences(svg, "<text"), occurrences(svg, "</text>"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(SvgPlot, NonFinitePointBreaksTheLine) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LinePlot plot{.title = "t", .series = {{"line", {{0, 0}, {5, nan}, {10, 10}}}}};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("M72.0 398.0M780.0 44.0"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(SvgPlot, LogarithmicAxesHavePowersAsTicks) {
  // x from 1 to 16 by powers of two, 708 pixels wide: 4 is in the middle. y from 1 to 100 by tens.
  const LinePlot plot{.title = "t",
                      .series = {{"line", {{1, 1}, {4, 10}, {16, 100}}}},
                      .x_scale = PlotScale::kLog2,
                      .y_scale = PlotScale::kLog10};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("M72.0 398.0L426.0 221.0L780.0 44.0"));
  for (const char* tick : {">1<", ">2<", ">4<", ">8<", ">16<", ">10<", ">100<"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
}

TEST(SvgPlot, LabelAtTheEdgeIsWhole) {
  // Eleven digits of 7 pixels, centred 38.5 pixels before the edge of 800. The axis ends at 780.
  const LinePlot plot{
      .title = "t", .series = {{"line", {{1, 0}, {1048576, 1}}}}, .x_scale = PlotScale::kLog2};
  EXPECT_THAT(render_svg(plot), HasSubstr("<text x=\"761.5\" y=\"416.0\" text-anchor=\"middle\">"
                                          "1.04858e+06</text>"));
}

TEST(SvgPlot, LogarithmicAxisOmitsZero) {
  const LinePlot plot{
      .title = "t", .series = {{"line", {{0, 1}, {1, 1}, {2, 2}}}}, .x_scale = PlotScale::kLog2};
  EXPECT_THAT(render_svg(plot), HasSubstr("d=\"M72.0 398.0L780.0 44.0\""));
}

TEST(SvgPlot, DrawsMarksAndErrorBars) {
  const LinePlot plot{.title = "t",
                      .series = {{.name = "paper", .points = {{0, 0}}, .marks_only = true},
                                 {.name = "here", .points = {{0, 5, 5}, {10, 5}}}}};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("<circle class=\"mark s0\" cx=\"72.0\" cy=\"398.0\" r=\"5\"/>"));
  // From 0 to 10 at x = 72, with end caps of 8 pixels. "here" gets the first colour but the
  // paper's.
  EXPECT_THAT(svg, HasSubstr("<path class=\"bar s1\" "
                             "d=\"M68.0 44.0h8.0M72.0 44.0V398.0M68.0 398.0h8.0\"/>"));
  EXPECT_EQ(occurrences(svg, "class=\"bar"), 1);
}

// Axes as in PointsMatchTheAxes; the area ends where a point is unknown.
TEST(SvgPlot, BandCoversTheErrors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LinePlot plot{
      .title = "t",
      .series = {{.name = "line", .points = {{0, 5, 5}, {5, 5, 0}, {10, nan, 1}}, .band = true},
                 {.name = "range", .points = {{0, 0}, {10, 10}}}}};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("<path class=\"band f1\" "
                             "d=\"M72.0 44.0L426.0 221.0L426.0 221.0L72.0 398.0Z\"/>"));
  EXPECT_EQ(occurrences(svg, "class=\"band"), 1);
  EXPECT_EQ(occurrences(svg, "class=\"bar"), 0);
}

TEST(SvgPlot, PointWithoutNeighbourGetsAnErrorBar) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const LinePlot plot{
      .title = "t",
      .series = {{.name = "one", .points = {{0, 5, 5}, {5, nan}, {10, 5}}, .band = true}}};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("<path class=\"bar s1\" "
                             "d=\"M68.0 44.0h8.0M72.0 44.0V398.0M68.0 398.0h8.0\"/>"));
  EXPECT_EQ(occurrences(svg, "class=\"bar"), 1);
  EXPECT_EQ(occurrences(svg, "class=\"band"), 0);
}

TEST(SvgPlot, YAxisMayBeginAtZero) {
  LinePlot plot{.title = "t", .series = {{"line", {{0, 90}, {1, 100}}}}};
  EXPECT_THAT(render_svg(plot), Not(HasSubstr(">0</text>\n<line class=\"grid\" x1=\"72.0\"")));
  plot.y_from_zero = true;
  EXPECT_THAT(render_svg(plot), HasSubstr(">20<"));
}

TEST(SvgPlot, StacksSeveralPlots) {
  const std::vector<LinePlot> plots{{.title = "one", .height_px = 100},
                                    {.title = "two", .width_px = 900, .height_px = 200}};
  const std::string svg = render_svg(plots);
  EXPECT_THAT(svg, HasSubstr("width=\"900\" height=\"300\" viewBox=\"0 0 900 300\""));
  EXPECT_THAT(svg, HasSubstr("<title>one</title>"));
  EXPECT_THAT(svg, HasSubstr("<g transform=\"translate(0 100)\">"));
  EXPECT_EQ(occurrences(svg, "<g "), occurrences(svg, "</g>"));
}

TEST(SvgPlot, LegendStandsBelowThePlot) {
  LinePlot plot{.title = "t", .series = {{"trio-ml", {{0, 0}, {10, 10}}}, {"ring", {{0, 1}}}}};
  // One row of 20 pixels and a margin of 8 below 450: its text has its base line at 450 + 10 + 4.
  EXPECT_THAT(render_svg(plot), HasSubstr("width=\"800\" height=\"478\""));
  EXPECT_THAT(render_svg(plot), HasSubstr("<text x=\"112.0\" y=\"464.0\">trio-ml</text>"));
  EXPECT_THAT(render_svg(plot), HasSubstr("y=\"464.0\">ring</text>"));
  // A name that does not fit beside the first begins a second row.
  plot.series[1].name = std::string(90, 'x');
  EXPECT_THAT(render_svg(plot), HasSubstr("height=\"498\""));
  EXPECT_THAT(render_svg(plot), HasSubstr("<text x=\"112.0\" y=\"484.0\">xxx"));
}

TEST(SvgPlot, FewPointsHaveMarkersAndManyHaveSome) {
  LinePlot plot{.title = "t", .series = {{"trio-ml", {}}}};
  for (int i = 0; i < 24; i++) plot.series[0].points.push_back({1.0 * i, 1.0 * i});
  EXPECT_EQ(occurrences(render_svg(plot), "class=\"dot"), 24 + 1);  // And the legend's.
  // Every second of 25, every tenth of 100, and the legend's.
  plot.series[0].points.push_back({24, 24});
  EXPECT_EQ(occurrences(render_svg(plot), "class=\"dot"), 13 + 1);
  for (int i = 25; i < 100; i++) plot.series[0].points.push_back({1.0 * i, 1.0 * i});
  EXPECT_EQ(occurrences(render_svg(plot), "class=\"dot"), 10 + 1);
  plot.series[0].points.resize(2);
  plot.series[0].reference = true;
  EXPECT_EQ(occurrences(render_svg(plot), "class=\"dot"), 0);
  plot.series[0].points.resize(1);  // A line of one point would be invisible.
  EXPECT_EQ(occurrences(render_svg(plot), "class=\"dot"), 1 + 1);
}

TEST(SvgPlot, CoincidentLinesTakeTurnsAndSaySo) {
  LinePlot plot{.title = "t",
                .series = {{"waiting", {{0, 0}, {10, 100}}},
                           {"ring", {{0, 50}, {10, 0}}},
                           {"switchml-256", {{0, 0.1}, {10, 100}}}}};
  const std::string svg = render_svg(plot);
  EXPECT_EQ(occurrences(svg, "stroke-dasharray=\"8 8\" stroke-dashoffset=\"0\""), 1);
  EXPECT_EQ(occurrences(svg, "stroke-dasharray=\"8 8\" stroke-dashoffset=\"-8\""), 1);
  EXPECT_THAT(svg, HasSubstr(">waiting</text>"));
  EXPECT_THAT(svg, HasSubstr(">switchml-256 (close to waiting)</text>"));
  EXPECT_EQ(occurrences(svg, "close to"), 1);
  EXPECT_THAT(svg, Not(HasSubstr("same as")));
  plot.series[2].points.front().y = 0;
  EXPECT_THAT(render_svg(plot), HasSubstr(">switchml-256 (same as waiting)</text>"));
  plot.series[2].points.back().y = 90;  // Thirty pixels away.
  EXPECT_THAT(render_svg(plot), Not(AnyOf(HasSubstr("same as"), HasSubstr("close to"))));
}

TEST(SvgPlot, VariantsOfASystemShareItsColourAndDifferInDashes) {
  const LinePlot plot{
      .title = "t",
      .series = {{"trio-ml skip", {{0, 0}, {1, 1}}}, {"trio-ml compute", {{0, 1}, {1, 3}}}}};
  const std::string svg = render_svg(plot);
  const size_t at = svg.find("<path class=\"line s");
  const std::string one_class = svg.substr(at, svg.find(' ', at + 6) - at);
  EXPECT_EQ(occurrences(svg, one_class), 4);
  EXPECT_EQ(occurrences(svg, "stroke-dasharray=\"none\""), 2);
  EXPECT_EQ(occurrences(svg, "stroke-dasharray=\"8 4\""), 2);
}

TEST(SvgPlot, EmptyPlotIsAnEmptyFrame) {
  EXPECT_THAT(render_svg({.title = "empty", .series = {}}), HasSubstr("class=\"grid\""));
  EXPECT_THAT(render_svg({.title = "empty", .series = {{"none", {}}}}), HasSubstr("none"));
}

}  // namespace
}  // namespace tributary::lab
