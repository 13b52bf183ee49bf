// SPDX-License-Identifier: Apache-2.0
// Method: exact bytes of every writer for rows written by hand; JSON is also read back.
#include "lab/report/figure_row.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace tributary::lab {
namespace {

std::vector<FigureRow> two_rows() {
  return {{.figure = "trio-15",
           .series = "latency",
           .x = 64,
           .paper = 30,
           .here = 31.5,
           .unit = "us",
           .seed = 7},
          {.figure = "trio-15",
           .series = "a \"b\", c",
           .x = 128,
           .here = 0.1,
           .unit = "us",
           .sample = Sample{.count = 4,
                            .mean = 0.1,
                            .deviation = 0.25,
                            .standard_error = 0.125,
                            .low = -0.1,
                            .high = 0.5},
           .shares = BlockShares{.degraded = 0.5, .skipped = 0.25, .missed = 0},
           .explained = "because",
           .seed = 7,
           .settings = "workers=2",
           .model_digest = "0123456789abcdef"}};
}

TEST(FigureRow, TableShowsPaperHereAndRatio) {
  const std::vector<FigureRow> rows = two_rows();
  EXPECT_EQ(as_table(std::span(rows).first(1), "gradients"),
            "  series   gradients  paper  here  ratio  unit\n"
            "  latency         64     30  31.5  1.050  us\n");
}

TEST(FigureRow, TableShowsSamplesSharesAndExplanations) {
  EXPECT_EQ(as_table(two_rows(), "x"),
            "  series      x  paper  here  ratio  unit  std. error  lowest  highest  seeds  "
            "degraded  skipped  missed\n"
            "  latency    64     30  31.5  1.050  us             -       -        -      -  "
            "       -        -       -\n"
            "  a \"b\", c  128      -   0.1  - [1]  us         0.125    -0.1      0.5      4  "
            "  50.0 %   25.0 %   0.0 %\n"
            "[1] because\n");
}

TEST(FigureRow, RunsThatAWorkerLeftAreInEveryOutput) {
  std::vector<FigureRow> rows = two_rows();
  rows[1].shares->dropped_out = 0.75;
  rows[1].shares->dropout_iteration = 7.5;
  EXPECT_EQ(table_of(rows, "x").lines[0].back(), "dropped out");
  EXPECT_EQ(table_of(rows, "x").lines[1].back(), "-");
  EXPECT_EQ(table_of(rows, "x").lines[2].back(), "75.0 %");
  const auto json = nlohmann::json::parse(as_json(rows));
  EXPECT_EQ(json[1]["dropped_out"], 0.75);
  EXPECT_EQ(json[1]["dropout_iteration"], 7.5);
  EXPECT_NE(as_csv(rows).find(",0.5,0.25,0,0.75,7.5,because,"), std::string::npos);
}

TEST(FigureRow, JsonHasOneRowPerLine) {
  EXPECT_EQ(
      as_json(two_rows()),
      "[\n"
      R"({"figure":"trio-15","series":"latency","x":64.0,"paper":30.0,"here":31.5,"unit":"us",)"
      R"("spread":null,"standard_error":null,"low":null,"high":null,"seeds":1,)"
      R"("degraded":null,"skipped":null,"missed":null,"dropped_out":null,)"
      R"("dropout_iteration":null,"explained":null,"seed":7,)"
      R"("settings":null,"model_digest":null},)"
      "\n"
      R"({"figure":"trio-15","series":"a \"b\", c","x":128.0,"paper":null,"here":0.1,)"
      R"("unit":"us","spread":0.25,"standard_error":0.125,"low":-0.1,"high":0.5,"seeds":4,)"
      R"("degraded":0.5,"skipped":0.25,"missed":0.0,"dropped_out":0.0,)"
      R"("dropout_iteration":null,"explained":"because","seed":7,)"
      R"("settings":"workers=2","model_digest":"0123456789abcdef"})"
      "\n]\n");
  EXPECT_EQ(as_json({}), "[]\n");
}

constexpr char kCsvHead[] =
    "figure,series,x,paper,here,unit,spread,standard_error,low,high,seeds,degraded,skipped,missed,"
    "dropped_out,dropout_iteration,explained,seed,settings,model_digest\n";

TEST(FigureRow, CsvQuotesSpecialCharacters) {
  EXPECT_EQ(as_csv(two_rows()),
            std::string(kCsvHead) +
                "trio-15,latency,64,30,31.5,us,,,,,1,,,,,,,7,,\n"
                "trio-15,\"a \"\"b\"\", c\",128,,0.1,us,0.25,0.125,-0.1,0.5,4,0.5,0.25,0,"
                "0,,because,7,workers=2,0123456789abcdef\n");
}

TEST(FigureRow, NonFiniteNumbersStayVisible) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<FigureRow> rows{
      {.figure = "f", .series = "s", .x = 1, .paper = 2, .here = nan, .unit = "s"}};
  EXPECT_TRUE(nlohmann::json::parse(as_json(rows))[0]["here"].is_null());
  EXPECT_EQ(as_csv(rows), std::string(kCsvHead) + "f,s,1,2,,s,,,,,1,,,,,,,0,,\n");
  EXPECT_EQ(as_table(rows, "x"),
            "  series  x  paper  here  ratio  unit\n"
            "  s       1      2     -    nan  s\n");
}

TEST(FigureRow, ShortNumbersHaveFourDigits) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(30), "30");
  EXPECT_EQ(short_number(-1.23456), "-1.235");
  EXPECT_EQ(short_number(123456), "123456");
  EXPECT_EQ(short_number(1234567), "1.235e+06");
  EXPECT_EQ(short_number(0.00123456), "0.001235");
  EXPECT_EQ(short_number(0.00001), "1e-05");
  EXPECT_EQ(short_number(99.999), "100");
}

}  // namespace
}  // namespace tributary::lab
