// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/campaign.h"

#include <gtest/gtest.h>

#include <atomic>

namespace tributary::lab {
namespace {

TEST(Campaign, ResultDoesNotDependOnThreads) {
  CampaignConfig config{.first_seed = 7, .seeds = 24};
  const CampaignReport alone = run_campaign(config);
  config.threads = 2;
  const CampaignReport shared = run_campaign(config);
  EXPECT_TRUE(alone.is_good());
  EXPECT_EQ(alone.seeds, 24U);
  EXPECT_EQ(alone.digest, shared.digest);
  EXPECT_EQ(alone.packets, shared.packets);
  EXPECT_EQ(alone.faults, shared.faults);
  config.first_seed = 8;
  EXPECT_NE(run_campaign(config).digest, alone.digest);
}

TEST(Campaign, ReportsProgressAndStopsOnRequest) {
  std::atomic<uint64_t> over{0};
  CampaignConfig config{.seeds = 100};
  config.on_progress = [&](uint64_t count) { over = count; };
  config.is_stopped = [&] { return over >= 3; };
  EXPECT_EQ(run_campaign(config).seeds, 3U);
}

TEST(Campaign, RemovesFaultKindsThatAFailureDoesNotNeed) {
  // The run does not fail, so no fault of the invented failure can be removed.
  const uint64_t seed = 7;
  FaultResult made_up;
  made_up.breaches[0] = {"made up"};
  const FaultKinds kinds = draw_plan(seed).kinds;
  EXPECT_EQ(smallest_kinds(seed, FaultKinds::all(), made_up), kinds);
  FaultKinds some;
  some.add(FaultKind::kLoss);
  EXPECT_EQ(replay_command(17, some), "tributary lab faults --seed 17 --only loss --trace");
  EXPECT_EQ(replay_command(17, some, {.attackers = true}),
            "tributary lab faults --attackers --seed 17 --only loss --trace");
  EXPECT_EQ(replay_command(17, some, {.sharded = true}),
            "tributary lab faults --sharded --seed 17 --only loss --trace");
}

}  // namespace
}  // namespace tributary::lab
