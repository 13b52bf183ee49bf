// SPDX-License-Identifier: Apache-2.0
// Method: exact bytes of every writer for rows written by hand; JSON is also read back.
#include "lab/report/figure_row.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
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
           .spread = 0.25,
           .seed = 7}};
}

TEST(FigureRow, TableShowsPaperHereAndRatio) {
  EXPECT_EQ(as_table(two_rows(), "gradients"),
            "  series    gradients  paper       here  ratio  unit\n"
            "  latency          64     30       31.5  1.050  us\n"
            "  a \"b\", c        128      -  0.1 ±0.25      -  us\n");
}

TEST(FigureRow, JsonHasOneRowPerLine) {
  EXPECT_EQ(as_json(two_rows()),
            "[\n"
            "{\"figure\":\"trio-15\",\"series\":\"latency\",\"x\":64.0,\"paper\":30.0,"
            "\"here\":31.5,\"unit\":\"us\",\"spread\":null,\"seed\":7},\n"
            "{\"figure\":\"trio-15\",\"series\":\"a \\\"b\\\", c\",\"x\":128.0,\"paper\":null,"
            "\"here\":0.1,\"unit\":\"us\",\"spread\":0.25,\"seed\":7}\n"
            "]\n");
  EXPECT_EQ(as_json({}), "[]\n");
}

TEST(FigureRow, CsvQuotesSpecialCharacters) {
  EXPECT_EQ(as_csv(two_rows()),
            "figure,series,x,paper,here,unit,spread,seed\n"
            "trio-15,latency,64,30,31.5,us,,7\n"
            "trio-15,\"a \"\"b\"\", c\",128,,0.1,us,0.25,7\n");
}

TEST(FigureRow, NonFiniteNumbersStayVisible) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<FigureRow> rows{
      {.figure = "f", .series = "s", .x = 1, .paper = 2, .here = nan, .unit = "s"}};
  EXPECT_TRUE(nlohmann::json::parse(as_json(rows))[0]["here"].is_null());
  EXPECT_EQ(as_csv(rows), "figure,series,x,paper,here,unit,spread,seed\nf,s,1,2,,s,,0\n");
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
