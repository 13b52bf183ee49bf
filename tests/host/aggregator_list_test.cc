// SPDX-License-Identifier: Apache-2.0
// Method: hand-written lists, then one refusal for each rule.
#include "host/aggregator_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::host {
namespace {

using ::testing::HasSubstr;

std::vector<Aggregator> parsed(std::string_view list) {
  auto aggregators = parse_aggregators(list, 12000);
  EXPECT_TRUE(aggregators.has_value()) << aggregators.error().text;
  return aggregators.value_or(std::vector<Aggregator>{});
}

std::string error_of(std::string_view list) {
  const auto aggregators = parse_aggregators(list, 12000);
  return aggregators ? "" : aggregators.error().text;
}

TEST(AggregatorList, ReadsNamesPortsAndWeights) {
  const auto list = parsed("box,10.0.0.2:7=0,[fe80::1%eth0]=12,[::1]:9");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].name, "box:12000");
  EXPECT_EQ(list[0].weight, 1U);
  EXPECT_EQ(list[1].name, "10.0.0.2:7");
  EXPECT_EQ(list[1].weight, 0U);
  EXPECT_EQ(list[2].name, "[fe80::1%eth0]:12000");
  EXPECT_EQ(list[2].weight, 12U);
  EXPECT_EQ(list[3].name, "[::1]:9");
  EXPECT_FALSE(list[3].address.is_set());
}

TEST(AggregatorList, RefusesListsThatNoJobCanHave) {
  EXPECT_THAT(error_of(""), HasSubstr("'' is not HOST:PORT"));
  EXPECT_THAT(error_of("a,,b"), HasSubstr("'' is not HOST:PORT"));
  EXPECT_THAT(error_of("a,"), HasSubstr("'' is not HOST:PORT"));
  EXPECT_EQ(error_of("a,a:12000"), "aggregator a:12000 is given twice");
  EXPECT_EQ(error_of("a=65536"),
            "weight of a:12000='65536' is not allowed; allowed: a whole number from 0 to 65535");
  EXPECT_THAT(error_of("a="), HasSubstr("is not allowed"));
  EXPECT_THAT(error_of("a=1=2"), HasSubstr("is not allowed"));
  EXPECT_THAT(error_of("a:0"), HasSubstr("port='0' is not allowed"));
  EXPECT_THAT(error_of("a=0,b=0"), HasSubstr("every aggregator has weight 0"));
  EXPECT_EQ(error_of("::1:9"),
            "'::1:9' is not HOST:PORT, for example 10.0.0.1:12000 or [::1]:12000");
  EXPECT_THAT(error_of("[::1"), HasSubstr("no closing bracket"));
  std::string many = "a0";
  for (uint32_t i = 1; i <= kAggregatorsMax; i++) many += ",a" + std::to_string(i);
  EXPECT_EQ(error_of(many), "65 aggregators are not allowed; allowed: 1 to 64");
}

TEST(AggregatorList, RefusesTwoNamesOfOneAddress) {
  auto list = parsed("127.0.0.1:5,[::ffff:127.0.0.1]:5");
  ASSERT_TRUE(resolve(list).has_value());
  const auto checked = check_addresses(list);
  ASSERT_FALSE(checked.has_value());
  EXPECT_THAT(checked.error().text, HasSubstr("have the same address 127.0.0.1:5"));
}

TEST(AggregatorList, DigestDependsOnNamesOrderAndWeights) {
  const uint64_t digest = list_digest(parsed("a,b"));
  EXPECT_EQ(digest, list_digest(parsed("a:12000=1,b")));
  EXPECT_NE(digest, list_digest(parsed("b,a")));
  EXPECT_NE(digest, list_digest(parsed("a,b=2")));
  EXPECT_NE(digest, list_digest(parsed("a")));
}

}  // namespace
}  // namespace tributary::host
