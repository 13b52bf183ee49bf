// SPDX-License-Identifier: Apache-2.0
// Method: a report by hand, whose text and JSON must name the seed, the promise and the replay.
#include "cli/lab/program_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

TEST(ProgramFaultsReport, NamesSeedPromiseAndReplay) {
  lab::ProgramCampaignReport report{.seeds = 5, .failed_seeds = 1, .packets = 99, .failures = {}};
  report.faults[0] = 7;
  report.failures.push_back({.seed = 3, .breaches = {"live: 1 outcomes of 2 packets"}});
  const std::string text = as_text("filter", report);
  EXPECT_THAT(text, HasSubstr("5 seeds, 1 with a broken promise"));
  EXPECT_THAT(text, HasSubstr("live: 1 outcomes of 2 packets"));
  EXPECT_THAT(text, HasSubstr("tributary lab faults --program filter --seed 3"));
  const auto json = as_json("filter", report);
  EXPECT_EQ(json["faults"]["loss"], 7);
  EXPECT_EQ(json["failures"][0]["seed"], 3);
}

}  // namespace
}  // namespace tributary::cli
