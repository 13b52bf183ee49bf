// SPDX-License-Identifier: Apache-2.0
// Method: each accepted shape by hand, then each refusal with its text.
#include "cli/serve/serve_program.h"

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
  EXPECT_EQ(parse_program("filter,help").error().text,
            "--program filter: 'help' is not key=value; allowed keys: none");
  EXPECT_THAT(parse_program("guard,help").error().text,
              ::testing::StartsWith("--program guard: 'help' is not key=value; allowed keys: "
                                    "source-pps, network-pps, destination-pps, action, allow,"));
}

}  // namespace
}  // namespace tributary::cli
