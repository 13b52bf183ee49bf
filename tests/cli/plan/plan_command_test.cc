// SPDX-License-Identifier: Apache-2.0
// Method: command lines as a user gives them, with their output, result file or error line.
#include "cli/plan/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/settings.h"
#include "tests/cli/command_bed.h"
#include "tests/support/scratch_directory.h"

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

Ran run(const std::vector<std::string>& args) {
  return run_subcommand("plan", add_plan, run_plan, args);
}

/// Returns the error line of a refused command line.
std::string refusal(const std::vector<std::string>& args) {
  const Ran refused = run(args);
  EXPECT_EQ(refused.exit, kExitUsage);
  EXPECT_EQ(refused.out, "");
  return refused.err;
}

TEST(PlanCommand, PrintsAndWritesTheSamePlan) {
  const testing::ScratchDirectory folder;
  const std::string path = folder.path() / "plan.json";
  const Ran done =
      run({"--workers", "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4", "--servers", "10.0.0.5:13000@2",
           "--gbit", "1", "--mtu", "9000", "--bytes", "1000000", "--job", "7", "--json", path});
  EXPECT_EQ(done.exit, 0) << done.err;
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  // 2x = 4w for the spare machine; x/2 + 4(x - 1)/2 = 1, x = 1.2 tensors.
  EXPECT_NEAR(json["predicted_s"], 1.2 * 0.008 * (1 + 98.0 / 8192), 1e-6);
  EXPECT_EQ(json["url"],
            "tributary://10.0.0.1:12000=1,10.0.0.2:12000=1,10.0.0.3:12000=1,10.0.0.4:12000=1,"
            "10.0.0.5:13000=6/job/7?world=4");
  EXPECT_THAT(done.out, HasSubstr(std::string(json["url"])));
}

TEST(PlanCommand, OptionsAreRefusedInOneLine) {
  EXPECT_TRUE(refusal({}).starts_with("tributary plan: --workers is missing; allowed: "));
  EXPECT_EQ(refusal({"--workers", "2", "--gbit", "0"}),
            "tributary plan: --gbit=0 is out of range; allowed: a number from 0.001 to 100000\n");
  EXPECT_EQ(
      refusal({"--workers", "2", "--sum-gbit", "0"}),
      "tributary plan: --sum-gbit=0 is out of range; allowed: a number from 0.001 to 100000\n");
  EXPECT_EQ(
      refusal({"--workers", "2", "--colocated", "maybe"}),
      "tributary plan: --colocated=maybe is neither on nor off; allowed: on, off, true, false\n");
  EXPECT_EQ(
      refusal({"--workers", "2", "--mtu", "100"}),
      "tributary plan: --mtu=100 is out of range; allowed: a whole number from 1280 to 65536\n");
  EXPECT_EQ(refusal({"--workers", "2", "--colocated", "off"}),
            "tributary plan: --servers=0 --colocated=off: no machine runs an aggregator; allowed: "
            "--servers 1 or more, or --colocated on\n");
}

TEST(PlanCommand, UnwritableFileFailsTheCommand) {
  const Ran failed = run({"--workers", "2", "--json", "/nonexistent/plan.json"});
  EXPECT_EQ(failed.exit, 2);
  EXPECT_TRUE(
      failed.err.starts_with("tributary plan: --json /nonexistent/plan.json: cannot be written"))
      << failed.err;
}

}  // namespace
}  // namespace tributary::cli
