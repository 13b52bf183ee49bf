// SPDX-License-Identifier: Apache-2.0
// Method: breaks a rule with and without a running program, and reads the error.
#include "base/assert.h"

#include <gtest/gtest.h>

#include <string>

#include "base/running_program.h"

namespace tributary {
namespace {

using Place = std::source_location;

struct Named {
  static constexpr std::string_view kName = "planted";
};
struct Nameless {};

std::string line_of(const Place& place) { return "assert_test.cc:" + std::to_string(place.line()); }

TEST(AssertDeathTest, RuleNamesProgramInstructionAndPlace) {
  RunningProgram running = running_program_of<Named>();
  const RunningProgramScope scope(running);
  const Place place = Place::current();
  EXPECT_DEATH(TRIB_REQUIRE_AT(1 > 2, "keep the order", place),
               "bug in program 'planted' at .*" + line_of(place) + ": keep the order");
  running.instruction = "parse";
  running.place = Place::current();
  EXPECT_DEATH(
      TRIB_REQUIRE_AT(1 > 2, "keep the order", place),
      "program 'planted' at .*" + line_of(place) + ", instruction 'parse': keep the order");
  EXPECT_DEATH(
      TRIB_REQUIRE(1 > 2, "keep the order"),
      "program 'planted', instruction 'parse' at .*" + line_of(running.place) + ": keep the order");
}

TEST(AssertDeathTest, RuleWithoutAProgram) {
  EXPECT_DEATH(TRIB_REQUIRE(1 > 2, "keep the order"), "bug in a program: keep the order");
  EXPECT_DEATH(TRIB_ASSERT(1 > 2), "bug: '1 > 2' does not hold");
}

TEST(RunningProgram, LastsForItsScope) {
  EXPECT_EQ(running_program(), nullptr);
  {
    static constexpr RunningProgram kRunning = running_program_of<Nameless>();
    const RunningProgramScope scope(kRunning);
    ASSERT_EQ(running_program(), &kRunning);
    EXPECT_TRUE(running_program()->program.empty());
  }
  EXPECT_EQ(running_program(), nullptr);
}

}  // namespace
}  // namespace tributary
