// SPDX-License-Identifier: Apache-2.0
// Method: each accepted shape by hand, then each refusal with its text.
#include "cli/serve_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

TEST(ServeProgram, ParsesAName) {
  const auto chosen = parse_program("filter");
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->program->name, "filter");
}

TEST(ServeProgram, RefusesUnknownNamesAndKeys) {
  EXPECT_THAT(parse_program("filtre").error().text, HasSubstr("did you mean 'filter'?"));
  EXPECT_THAT(parse_program("").error().text, HasSubstr("unknown program ''"));
  EXPECT_THAT(parse_program("filter,flows=3").error().text, HasSubstr("unknown key 'flows'"));
}

TEST(ServeProgram, TakesOneOrTwoSides) {
  const auto one = inline_sides({"packet:eth0"});
  ASSERT_TRUE(one);
  ASSERT_EQ(one->size(), 1U);
  EXPECT_EQ(one->front().interface(), "eth0");
  const auto two = inline_sides({"packet:eth0", "vxlan:127.0.0.1,peer=127.0.0.2"});
  ASSERT_TRUE(two);
  ASSERT_EQ(two->size(), 2U);
  EXPECT_TRUE(two->back().is_tunnel());
}

TEST(ServeProgram, RefusesOtherPorts) {
  EXPECT_THAT(inline_sides({}).error().text, HasSubstr("one --port (and back) or two"));
  EXPECT_THAT(inline_sides({"packet:a", "packet:b", "packet:c"}).error().text,
              HasSubstr("3 are given"));
  EXPECT_THAT(inline_sides({"packet:a", "packet:a"}).error().text, HasSubstr("given twice"));
  EXPECT_THAT(inline_sides({"vxlan:127.0.0.1:1,peer=127.0.0.2", "vxlan:127.0.0.1:1,peer=127.0.0.3"})
                  .error()
                  .text,
              HasSubstr("given twice"));
  for (const char* text : {"eth0", "packet:", "packet:eth0,ip=10.0.0.1/24"}) {
    EXPECT_THAT(inline_sides({text}).error().text, HasSubstr("packet:INTERFACE")) << text;
  }
}

}  // namespace
}  // namespace tributary::cli
