// SPDX-License-Identifier: Apache-2.0
#include "lab/trace/time_text.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

TEST(TimeText, ParsesTimes) {
  EXPECT_EQ(parse_time("12us").value(), microseconds(12));
  EXPECT_EQ(parse_time("1.5ms").value(), microseconds(1500));
  EXPECT_EQ(parse_time("0.01ns").value(), picoseconds(10));
  EXPECT_EQ(parse_time("2s").value(), seconds(2));
  EXPECT_EQ(parse_time("0").value(), Duration());
  EXPECT_EQ(parse_time("1e3ns").value(), microseconds(1));
}

TEST(TimeText, RefusesTextsThatAreNoTime) {
  for (const char* text :
       {"", "12", "us", "12 us", "12m", "-1us", "nan", "nans", "infs", "1e9s", "12usx", "0x1s"}) {
    const auto time = parse_time(text);
    ASSERT_FALSE(time) << text;
    EXPECT_NE(time.error().text.find("allowed: a number and its unit"), std::string::npos);
  }
}

TEST(TimeText, FormatsTimes) {
  EXPECT_EQ(time_text(Duration()), "0 ns");
  EXPECT_EQ(time_text(picoseconds(335'520)), "335.52 ns");
  EXPECT_EQ(time_text(nanoseconds(12'034)), "12.034 us");
  EXPECT_EQ(time_text(milliseconds(10)), "10 ms");
  EXPECT_EQ(time_text(seconds(3)), "3 s");
  EXPECT_EQ(nanoseconds_text(picoseconds(335'520)), "335.52");
  EXPECT_EQ(nanoseconds_text(nanoseconds(7)), "7.00");
}

TEST(TimeText, TimesSurviveARoundTrip) {
  Prng prng(testing::seed_from_env());
  for (uint32_t i = 0; i < 10'000; i++) {
    const Duration time = Duration::from_ticks(static_cast<int64_t>(prng.any_u64() >> 20));
    std::string text = time_text(time);
    text.erase(text.find(' '), 1);
    ASSERT_EQ(parse_time(text).value(), time) << text;
  }
}

}  // namespace
}  // namespace tributary::lab
