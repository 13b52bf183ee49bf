// SPDX-License-Identifier: Apache-2.0
// Method: random seeds of each program; then fixed seeds, in which all faults occur and a full
// store refuses flows, and whose result is the same with any number of threads.
#include "lab/program_faults/program_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

class ProgramFaults : public ::testing::TestWithParam<const char*> {};

TEST_P(ProgramFaults, PromisesHold) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  const auto report =
      run_program_campaign(*programs::find_program(GetParam()), {.first_seed = seed, .seeds = 40});
  ASSERT_TRUE(report) << report.error().text;
  EXPECT_EQ(report->seeds, 40U);
  EXPECT_EQ(report->failed_seeds, 0U);
  for (const ProgramFaultResult& failure : report->failures) {
    ADD_FAILURE() << "tributary lab faults --program " << GetParam() << " --seed " << failure.seed
                  << ": " << failure.breaches.front();
  }
}

INSTANTIATE_TEST_SUITE_P(OfEachProgram, ProgramFaults,
                         ::testing::Values("filter", "telemetry", "guard"),
                         [](const auto& program) { return std::string(program.param); });

TEST(ProgramCampaign, ResultDoesNotDependOnThreads) {
  const programs::Program& telemetry = *programs::find_program("telemetry");
  const auto one = run_program_campaign(telemetry, {.first_seed = 7, .seeds = 10});
  const auto two = run_program_campaign(telemetry, {.first_seed = 7, .seeds = 10, .threads = 2});
  const auto others = run_program_campaign(telemetry, {.first_seed = 8, .seeds = 10});
  ASSERT_TRUE(one && two && others);
  EXPECT_EQ(one->digest, two->digest);
  EXPECT_NE(one->digest, others->digest);
}

TEST(ProgramCampaign, FaultsOccurAndSmallStoresRefuseFlows) {
  const auto report =
      run_program_campaign(*programs::find_program("telemetry"), {.first_seed = 1, .seeds = 40});
  ASSERT_TRUE(report);
  for (size_t i = 0; i < kWireFaultCount; i++) {
    EXPECT_GT(report->faults[i], 0U) << to_string(static_cast<WireFault>(i));
  }
  EXPECT_GT(report->refused_packets, 0U);
}

}  // namespace
}  // namespace tributary::lab
