// SPDX-License-Identifier: Apache-2.0
// Method: each accepted shape by hand, then each refusal with its text.
#include "cli/serve_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::ElementsAre;
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

TEST(ServeProgram, TakesOneOrTwoInterfaces) {
  EXPECT_THAT(*inline_interfaces({"packet:eth0"}), ElementsAre("eth0"));
  EXPECT_THAT(*inline_interfaces({"packet:eth0", "packet:eth1"}), ElementsAre("eth0", "eth1"));
}

TEST(ServeProgram, RefusesOtherPorts) {
  EXPECT_THAT(inline_interfaces({}).error().text, HasSubstr("one --port (and back) or two"));
  EXPECT_THAT(inline_interfaces({"packet:a", "packet:b", "packet:c"}).error().text,
              HasSubstr("3 are given"));
  EXPECT_THAT(inline_interfaces({"packet:a", "packet:a"}).error().text, HasSubstr("given twice"));
  for (const char* text : {"eth0", "packet:", "packet:eth0,ip=10.0.0.1/24", "dpdk:0000:01:00.0"}) {
    EXPECT_THAT(inline_interfaces({text}).error().text, HasSubstr("packet:INTERFACE")) << text;
  }
}

}  // namespace
}  // namespace tributary::cli
