// SPDX-License-Identifier: Apache-2.0
#include "base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace tributary {
namespace {

TEST(NumberText, ReadsWholeNumbersUpToTheLimitsOfTheType) {
  EXPECT_EQ(parse_number<uint32_t>("0"), 0U);
  EXPECT_EQ(parse_number<uint32_t>("007"), 7U);
  EXPECT_EQ(parse_number<uint32_t>("4294967295"), UINT32_MAX);
  EXPECT_EQ(parse_number<uint32_t>("4294967296"), std::nullopt);
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_number<uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_number<int>("-2147483648"), INT32_MIN);
}

TEST(NumberText, RefusesTextsThatAreMoreOrLessThanANumber) {
  for (const char* text :
       {"", " ", " 1", "1 ", "+1", "-", "1x", "x1", "0x10", "1.0", "1e3", "1,2"}) {
    EXPECT_EQ(parse_number<uint32_t>(text), std::nullopt) << "'" << text << "'";
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << "'" << text << "'";
  }
  EXPECT_EQ(parse_number<uint32_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<uint32_t>("-0"), std::nullopt);
  EXPECT_EQ(parse_number<uint32_t>(std::string_view("1\0", 2)), std::nullopt);
  EXPECT_EQ(parse_number<uint32_t>(std::string_view()), std::nullopt);
}

TEST(NumberText, ReadsNoFurtherThanTheViewReaches) {
  EXPECT_EQ(parse_number<uint32_t>(std::string_view("1234").substr(0, 2)), 12U);
}

TEST(NumberText, ReadsFloatingNumbers) {
  EXPECT_EQ(parse_number<double>("0.25"), 0.25);
  EXPECT_EQ(parse_number<double>("-1e3"), -1000.0);
  EXPECT_EQ(parse_number<float>("1e8"), 1e8F);
  EXPECT_EQ(parse_number<float>("1e39"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e39"), 1e39);
  for (const char* text : {"", " 1", "1 ", "+1", "1e", "0.5ms", "."}) {
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(NumberText, LeavesInfinityAndNanToTheCaller) {
  EXPECT_TRUE(std::isinf(parse_number<double>("inf").value()));
  EXPECT_TRUE(std::isnan(parse_number<double>("nan").value()));
}

}  // namespace
}  // namespace tributary
