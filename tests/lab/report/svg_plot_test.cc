// SPDX-License-Identifier: Apache-2.0
#include "lab/report/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

uint32_t occurrences(const std::string& text, const std::string& part) {
  uint32_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

TEST(AxisTicks, TicksAreRoundAndCoverTheRange) {
  EXPECT_THAT(axis_ticks(0.0, 10.0, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(axis_ticks(1.3, 3.9, 3), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(axis_ticks(-0.04, 0.05, 2),
              ElementsAre(DoubleNear(-0.05, 1e-12), 0, DoubleNear(0.05, 1e-12)));
}

TEST(AxisTicks, OneValueStillHasAnAxis) {
  const auto ticks = axis_ticks(5.0, 5.0, 4);
  ASSERT_GE(ticks.size(), 2);
  EXPECT_LE(ticks.front(), 5.0);
  EXPECT_GT(ticks.back(), 5.0);
}

TEST(AxisTicks, RandomRangesAreCoveredByFewTicks) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 1000; step++) {
    const double low = 1e4 * (prng.unit() - 0.5);
    const double high = low + 1e3 * prng.unit() + 1e-3;
    const auto ticks = axis_ticks(low, high, 6);
    ASSERT_GE(ticks.size(), 2) << low << " " << high;
    ASSERT_LE(ticks.size(), 9) << low << " " << high;
    const double slack = 2e-3 * (ticks[1] - ticks[0]);
    ASSERT_LE(ticks.front(), low + slack);
    ASSERT_GE(ticks.back(), high - slack);
  }
}

TEST(SvgPlot, PointsMatchTheAxes) {
  // 800 x 450 with margins 64, 20, 44, 52: x from 64 to 780, y from 398 up to 44. Both axes 0 … 10.
  const LinePlot plot{.title = "t", .series = {{"line", {{0, 0}, {5, 10}, {10, 5}}}}};
  EXPECT_THAT(render_svg(plot), HasSubstr("M64.0 398.0L422.0 44.0L780.0 221.0"));
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
  EXPECT_THAT(svg, HasSubstr("M64.0 398.0M780.0 44.0"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(SvgPlot, LogarithmicAxesHavePowersAsTicks) {
  // x from 1 to 16 by powers of two, 716 pixels wide: 4 is in the middle. y from 1 to 100 by tens.
  const LinePlot plot{.title = "t",
                      .series = {{"line", {{1, 1}, {4, 10}, {16, 100}}}},
                      .x_scale = PlotScale::kLog2,
                      .y_scale = PlotScale::kLog10};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("M64.0 398.0L422.0 221.0L780.0 44.0"));
  for (const char* tick : {">1<", ">2<", ">4<", ">8<", ">16<", ">10<", ">100<"}) {
    EXPECT_THAT(svg, HasSubstr(tick));
  }
}

TEST(SvgPlot, LogarithmicAxisOmitsZero) {
  const LinePlot plot{
      .title = "t", .series = {{"line", {{0, 1}, {1, 1}, {2, 2}}}}, .x_scale = PlotScale::kLog2};
  EXPECT_THAT(render_svg(plot), HasSubstr("d=\"M64.0 398.0L780.0 44.0\""));
}

TEST(SvgPlot, DrawsMarksAndErrorBars) {
  const LinePlot plot{.title = "t",
                      .series = {{.name = "paper", .points = {{0, 0}}, .marks_only = true},
                                 {.name = "here", .points = {{0, 5, 5}, {10, 5}}}}};
  const std::string svg = render_svg(plot);
  EXPECT_THAT(svg, HasSubstr("<circle class=\"mark s0\" cx=\"64.0\" cy=\"398.0\" r=\"5\"/>"));
  // From 0 to 10 at x = 64, with end caps of 8 pixels.
  EXPECT_THAT(svg, HasSubstr("<path class=\"bar s1\" "
                             "d=\"M60.0 44.0h8.0M64.0 44.0V398.0M60.0 398.0h8.0\"/>"));
  EXPECT_EQ(occurrences(svg, "class=\"bar"), 1);
}

TEST(SvgPlot, YAxisMayBeginAtZero) {
  LinePlot plot{.title = "t", .series = {{"line", {{0, 90}, {1, 100}}}}};
  EXPECT_THAT(render_svg(plot), Not(HasSubstr(">0</text>\n<line class=\"grid\" x1=\"64.0\"")));
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

TEST(SvgPlot, LegendCoversTheFewestPoints) {
  // A rising line ends at the top right, a falling one begins at the top left.
  LinePlot plot{.title = "t", .series = {{"line", {{0, 0}, {10, 10}}}}};
  const std::string at_left = "<rect class=\"paper grid\" x=\"72.0\" y=\"52.0\"";
  EXPECT_THAT(render_svg(plot), HasSubstr(at_left));
  plot.series[0].points = {{0, 10}, {10, 0}};
  EXPECT_THAT(render_svg(plot), Not(HasSubstr(at_left)));
  EXPECT_THAT(render_svg(plot), HasSubstr("y=\"52.0\""));
}

TEST(SvgPlot, EmptyPlotIsAnEmptyFrame) {
  EXPECT_THAT(render_svg({.title = "empty", .series = {}}), HasSubstr("class=\"grid\""));
  EXPECT_THAT(render_svg({.title = "empty", .series = {{"none", {}}}}), HasSubstr("none"));
}

}  // namespace
}  // namespace tributary::lab
