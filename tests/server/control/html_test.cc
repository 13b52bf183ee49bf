// SPDX-License-Identifier: Apache-2.0
// Method: each part of HTML from values made by hand.
#include "server/control/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Html, TextIsEscaped) {
  EXPECT_EQ(escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(Cell::text("<i>", "a\"b").to_html(), "<td class=\"a&quot;b\">&lt;i&gt;</td>");
  EXPECT_EQ(Cell::link("<", "/\"").to_html(), "<td><a href=\"/&quot;\">&lt;</a></td>");
  EXPECT_EQ(table_rows({}, "<none>"),
            "<tr><td class=\"none\" colspan=\"9\">&lt;none&gt;</td></tr>");
}

TEST(Html, FilledValuesAreNotFilledAgain) {
  EXPECT_EQ(fill("{{a}}-{{b}}", {{"a", "{{b}}"}, {"b", "x"}}), "{{b}}-x");
  EXPECT_EQ(fill("nothing", {}), "nothing");
}

TEST(Html, NumbersHaveUnits) {
  EXPECT_EQ(duration_text(json()), "unknown");
  EXPECT_EQ(duration_text(999), "999 ms");
  EXPECT_EQ(duration_text(2350), "2.4 s");
  EXPECT_EQ(scaled_text(0, "B"), "0 B");
  EXPECT_EQ(scaled_text(1500, "B"), "1.50 kB");
  EXPECT_EQ(scaled_text(2.5e9, "bit/s"), "2.50 Gbit/s");
  EXPECT_EQ(count_text(7), "7");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(ranks_text(json({1, 2})), "1, 2");
  EXPECT_EQ(ranks_text(json::array()), "none");
}

TEST(Html, StripDrawsRunsOfOneLevelAtTheRight) {
  const std::string strip = lateness_strip(json({0, 500, 600, 5, 20}));
  EXPECT_THAT(strip, HasSubstr("aria-label=\"longest 600 ms\""));
  EXPECT_THAT(strip, HasSubstr("<rect class=\"l4\" x=\"116\" y=\"0\" width=\"2\" height=\"1\"/>"));
  EXPECT_THAT(strip, HasSubstr("<rect class=\"l1\" x=\"119\" y=\"0\" width=\"1\" height=\"1\"/>"));
  EXPECT_THAT(strip, Not(HasSubstr("class=\"l0\"")));
  EXPECT_THAT(lateness_strip(json::array()), HasSubstr("longest 0 ms"));
}

}  // namespace
}  // namespace tributary::control
