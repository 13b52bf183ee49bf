// SPDX-License-Identifier: Apache-2.0
#include "lab/report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/report/markup.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

uint32_t occurrences(const std::string& text, const std::string& part) {
  uint32_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

ReportFigure figure(const std::string& name) {
  return {.name = name,
          .description = "latency of one PFE",
          .command = "tributary lab figure " + name,
          .x_name = "gradients",
          .points = 5,
          .seed_first = 3,
          .seed_last = 3,
          .rows = {{.figure = name,
                    .series = "latency",
                    .x = 64,
                    .paper = 30,
                    .here = 33,
                    .unit = "us",
                    .explained = "The queue is longer."},
                   {.figure = name, .series = "rate", .x = 64, .here = 2, .unit = "gradients/us"}},
          .notes = {"The paper states only this value."},
          .has_plots = true};
}

Report report() {
  return {.command = "tributary lab report --out FOLDER --quick",
          .version = "1.2.3",
          .commit = "0123456789ab",
          .figures = {figure("trio-15"), figure("trio-16")}};
}

TEST(Markup, EscapesWhatHasAMeaning) {
  EXPECT_EQ(escaped("a < b > c & \"d\" 'e'"), "a &lt; b &gt; c &amp; &quot;d&quot; &#39;e&#39;");
  EXPECT_EQ(escaped("&amp;"), "&amp;amp;");
  EXPECT_EQ(escaped(""), "");
}

TEST(HtmlReport, FiguresHaveCommandSeedVersionAndValues) {
  const std::string html = report_html(report());
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>\n"));
  EXPECT_TRUE(html.ends_with("</html>\n"));
  EXPECT_THAT(html, HasSubstr("<pre>tributary lab report --out FOLDER --quick</pre>"));
  EXPECT_THAT(html, HasSubstr("<li><a href=\"#trio-16\">trio-16</a>: latency of one PFE</li>"));
  EXPECT_THAT(html, HasSubstr("<h2 id=\"trio-15\">trio-15</h2>\n<p>latency of one PFE</p>\n"
                              "<pre>tributary lab figure trio-15</pre>\n"
                              "<p>5 runs, seed 3; version 1.2.3, commit 0123456789ab</p>\n"));
  EXPECT_THAT(html, HasSubstr("<img src=\"trio-15.svg\" alt=\"latency of one PFE\">"));
  EXPECT_THAT(html, HasSubstr("<tr><th>series</th><th>gradients</th><th>paper</th><th>here</th>"
                              "<th>ratio</th><th>unit</th></tr>\n"
                              "<tr><td>latency</td><td>64</td><td>30</td><td>33</td>"
                              "<td>1.100 [1]</td><td>us</td></tr>\n</table>"));
  EXPECT_THAT(html, HasSubstr("<p>[1] The queue is longer.</p>"));
  EXPECT_THAT(html, HasSubstr("<details><summary>2 rows</summary>"));
  EXPECT_THAT(html, HasSubstr("<li>The paper states only this value.</li>"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
}

TEST(HtmlReport, RepetitionsHaveARangeOfSeeds) {
  Report made = report();
  made.figures[0].seed_last = 22;
  EXPECT_THAT(report_html(made), HasSubstr("5 runs, seeds 3 to 22;"));
}

TEST(HtmlReport, FigureWithFailedRunsHasTheirReasonsAndItsOtherRows) {
  Report made = report();
  made.figures[0].failures = {"gradients=64: worker 2 <hangs>"};
  const std::string html = report_html(made);
  EXPECT_THAT(html, HasSubstr("<li>gradients=64: worker 2 &lt;hangs&gt;</li>"));
  EXPECT_THAT(html, HasSubstr("trio-15</a>: latency of one PFE (lacks failed runs)</li>"));
  EXPECT_THAT(html, HasSubstr("1 of 5 runs failed; rows that need them show \"-\""));
  EXPECT_THAT(html, HasSubstr("trio-15.svg"));
}

TEST(HtmlReport, WarningsHaveTheirNumberAndKinds) {
  Report made = report();
  for (const char* seed : {"seed 1", "seed 2"}) {
    made.figures[0].warnings.add_run(
        seed, std::vector<std::string>{"1 of 6 workers dropped out; times < shares"});
  }
  const std::string html = report_html(made);
  EXPECT_THAT(html, HasSubstr("<details><summary>2 of 5 runs have warnings, of 1 kind</summary>\n"
                              "<ul>\n<li>2 times, first in seed 1: 1 of 6 workers dropped out; "
                              "times &lt; shares</li>\n</ul>\n</details>\n"));
  EXPECT_EQ(occurrences(html, "have warnings"), 1U);
}

TEST(HtmlReport, AllTextIsEscapedAndAllElementsEnd) {
  const std::string evil = "<b a='\"&";
  Report made = report();
  made.command = made.version = made.commit = evil;
  ReportFigure& one = made.figures[0];
  one.name = one.description = one.command = one.x_name = evil;
  one.notes = {evil};
  one.rows[0].series = one.rows[0].unit = one.rows[0].explained = evil;
  made.figures[1].failures = {evil};
  made.figures[1].warnings.add_run(evil, std::vector<std::string>{evil});
  const std::string html = report_html(made);
  EXPECT_THAT(html, Not(HasSubstr("<b a=")));
  EXPECT_THAT(html, Not(HasSubstr("'\"")));
  for (const char* name : {"a", "p", "ul", "li", "pre", "table", "tr", "td", "th", "details", "div",
                           "h2", "body", "html", "style"}) {
    const std::string element = name;
    EXPECT_EQ(occurrences(html, "<" + element + ">") + occurrences(html, "<" + element + " "),
              occurrences(html, "</" + element + ">"))
        << name;
  }
}

TEST(HtmlReport, EmptyReportIsAPage) {
  EXPECT_TRUE(report_html({}).ends_with("<ul>\n</ul>\n</body>\n</html>\n"));
}

}  // namespace
}  // namespace tributary::lab
