// SPDX-License-Identifier: Apache-2.0
// Method: each accepted shape by hand, then each refusal with its text.
#include "cli/programs/live_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpus.h"

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

TEST(LiveCommand, TakesOneOrTwoSides) {
  const auto one = inline_sides({"packet:eth0"});
  ASSERT_TRUE(one);
  ASSERT_EQ(one->size(), 1U);
  EXPECT_EQ(one->front().interface(), "eth0");
  const auto bare = inline_sides({"eth0"});
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->front().interface(), "eth0");
  const auto two = inline_sides({"packet:eth0", "vxlan:127.0.0.1,peer=127.0.0.2"});
  ASSERT_TRUE(two);
  ASSERT_EQ(two->size(), 2U);
  EXPECT_TRUE(two->back().is_tunnel());
}

TEST(LiveCommand, RefusesOtherPorts) {
  EXPECT_THAT(inline_sides({}).error().text, HasSubstr("one --port (and back) or two"));
  EXPECT_THAT(inline_sides({"packet:a", "packet:b", "packet:c"}).error().text,
              HasSubstr("3 are given"));
  EXPECT_THAT(inline_sides({"packet:a", "packet:a"}).error().text, HasSubstr("given twice"));
  EXPECT_THAT(inline_sides({"packet:a", "a"}).error().text, HasSubstr("given twice"));
  EXPECT_THAT(inline_sides({"vxlan:127.0.0.1:1,peer=127.0.0.2", "vxlan:127.0.0.1:1,peer=127.0.0.3"})
                  .error()
                  .text,
              HasSubstr("given twice"));
  for (const char* text :
       {"", "packet:", "packet:eth0,ip=10.0.0.1/24", "packt:eth0", "eth0,ip=1"}) {
    EXPECT_THAT(inline_sides({text}).error().text, HasSubstr("INTERFACE, packet:INTERFACE"))
        << text;
  }
}

TEST(LiveCommand, ReadsCpus) {
  EXPECT_TRUE(cpus_of({})->empty());
  const int first = cpus_allowed().front();
  EXPECT_EQ(*cpus_of({.cpus = std::to_string(first)}), std::vector<int>{first});
  EXPECT_THAT(cpus_of({.cpus = "x"}).error().text, HasSubstr("--cpus: "));
}

}  // namespace
}  // namespace tributary::cli
