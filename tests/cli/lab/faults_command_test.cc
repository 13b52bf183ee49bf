// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/lab/faults.h"

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

TEST(LabFaults, ReadsTheOutcomeOfAMutant) {
  const MutantRow caught = mutant_row("kA", "a", "caught 12 job 0 rank 1: it is wrong", "");
  EXPECT_TRUE(caught.caught);
  EXPECT_EQ(caught.seeds, 12U);
  EXPECT_EQ(caught.how, "job 0 rank 1: it is wrong");
  const MutantRow missed = mutant_row("kB", "b", "missed 1000", "exit status 0");
  EXPECT_FALSE(missed.caught);
  EXPECT_EQ(missed.seeds, 1000U);
  const MutantRow stopped = mutant_row("kC", "c", "", "signal 6 (Aborted)");
  EXPECT_TRUE(stopped.caught);
  EXPECT_THAT(stopped.how, HasSubstr("signal 6"));
  EXPECT_EQ(mutant_row("kD", "d", "", "").how, "it never rests");

  const std::vector<MutantRow> rows{caught, missed, stopped};
  EXPECT_THAT(as_text(rows), HasSubstr("mutants_planted 3\nmutants_caught 2 (66.7 %)"));
  EXPECT_THAT(as_text(rows), HasSubstr("MISSED kB"));
  const auto json = as_json(rows);
  EXPECT_EQ(json["mutants_planted"], 3);
  EXPECT_EQ(json["mutants_caught"], 2);
  EXPECT_EQ(json["mutants"][1]["caught"], false);
}

TEST(LabFaults, ReportsTheCampaignsFindings) {
  lab::CampaignReport report;
  report.first_seed = 5;
  report.seeds = 10;
  report.breaches[0] = 1;
  report.failed_seeds = 1;
  report.faults[0] = 7;
  report.digest = 0xabc;
  lab::CampaignFailure failure;
  failure.result.seed = 9;
  failure.result.breaches[0] = {"a sum is wrong"};
  failure.smallest.trace = {"1 ms  something"};
  failure.replay = lab::replay_command(9, {});
  report.failures.push_back(failure);
  const std::string text = as_text(report, 123.4);
  for (const char* part :
       {"10 seeds from 5: 1 wrong, 0 stuck, 0 leaked, 0 forged_accepted, "
        "0 degraded_by_loss_alone",
        "123 seeds/s", "digest 0000000000000abc", "seed 9", "a sum is wrong", "something",
        "replay: tributary lab faults --seed 9 --only none --trace"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const auto json = as_json(report, 123.4);
  EXPECT_EQ(json["wrong"], 1);
  for (const char* zero : {"stuck", "leaked", "forged_accepted", "degraded_by_loss_alone"}) {
    EXPECT_EQ(json[zero], 0) << zero;
  }
  EXPECT_EQ(json["seeds"], 10);
  EXPECT_EQ(json["faults"]["loss"], 7);
  EXPECT_EQ(json["digest"], "0000000000000abc");
  EXPECT_EQ(json["failures"][0]["replay"], failure.replay);
}

}  // namespace
}  // namespace tributary::cli
