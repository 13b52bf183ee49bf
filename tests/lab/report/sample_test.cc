// SPDX-License-Identifier: Apache-2.0
// Method: values worked by hand.
#include "lab/report/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tributary::lab {
namespace {

TEST(Sample, StatisticsOfFourValues) {
  // Mean 5; squares 9 + 1 + 1 + 9 = 20, over 3.
  const Sample sample = sample_of(std::vector<double>{2, 4, 6, 8});
  EXPECT_EQ(sample.count, 4);
  EXPECT_DOUBLE_EQ(sample.mean, 5);
  EXPECT_DOUBLE_EQ(sample.deviation, std::sqrt(20.0 / 3));
  EXPECT_DOUBLE_EQ(sample.standard_error, std::sqrt(20.0 / 3) / 2);
  EXPECT_EQ(sample.low, 2);
  EXPECT_EQ(sample.high, 8);
}

TEST(Sample, OneValueHasNoDeviation) {
  const Sample sample = sample_of(std::vector<double>{7});
  EXPECT_EQ(sample.mean, 7);
  EXPECT_EQ(sample.deviation, 0);
  EXPECT_EQ(sample.standard_error, 0);
}

TEST(Sample, EqualValuesHaveNoDeviation) {
  // The sum of seven times 0.1 is not 0.7.
  const Sample sample = sample_of(std::vector<double>(7, 0.1));
  EXPECT_EQ(sample.mean, 0.1);
  EXPECT_EQ(sample.deviation, 0);
}

TEST(Sample, RatiosPairRepetitions) {
  // 1 / 2, 3 / 4; then 6 over each.
  EXPECT_DOUBLE_EQ(sample_of_ratio(std::vector<double>{1, 3}, std::vector<double>{2, 4}).mean,
                   0.625);
  const Sample over_one = sample_of_ratio(std::vector<double>{6}, std::vector<double>{2, 3});
  EXPECT_EQ(over_one.count, 2);
  EXPECT_EQ(over_one.low, 2);
  EXPECT_EQ(over_one.high, 3);
}

TEST(Sample, NoValueAndUnknownValuesAreNotANumber) {
  EXPECT_EQ(sample_of({}).count, 0);
  EXPECT_TRUE(std::isnan(sample_of({}).mean));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(sample_of(std::vector<double>{1, nan}).mean));
  EXPECT_TRUE(std::isnan(sample_of(std::vector<double>{1, nan}).high));
}

}  // namespace
}  // namespace tributary::lab
