// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/fault_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace tributary::lab {
namespace {

constexpr uint64_t kSeeds = 2000;

TEST(FaultPlan, StaysWithinTheCampaignsBounds) {
  std::set<uint32_t> levels;
  std::set<uint32_t> job_counts;
  std::set<uint32_t> workers_seen;
  FaultKinds seen;
  for (uint64_t seed = 1; seed <= kSeeds; seed++) {
    const FaultPlan plan = draw_plan(seed);
    uint32_t workers = 0;
    for (const JobPlan& job : plan.jobs) {
      workers += job.world;
      EXPECT_GE(job.world, 2U);
      EXPECT_TRUE(check(job.config).has_value());
      EXPECT_GT(job.work.size(), kCalmCollectives);
    }
    EXPECT_LE(workers, kPlannedWorkersMax) << seed;
    EXPECT_LE(plan.links.loss, 0.3);
    EXPECT_LE(plan.links.duplicate, 0.2);
    for (const Incident& incident : plan.incidents) {
      EXPECT_LE(incident.at + incident.length, plan.calm_at) << seed;
    }
    levels.insert(plan.levels());
    job_counts.insert(static_cast<uint32_t>(plan.jobs.size()));
    workers_seen.insert(workers);
    for (uint32_t i = 0; i < kFaultKindCount; i++) {
      if (plan.kinds.has(static_cast<FaultKind>(i))) seen.add(static_cast<FaultKind>(i));
    }
  }
  EXPECT_EQ(levels, (std::set<uint32_t>{1, 2, 3}));
  EXPECT_EQ(job_counts, (std::set<uint32_t>{1, 2, 3}));
  EXPECT_EQ(*workers_seen.begin(), 2U);
  EXPECT_EQ(*workers_seen.rbegin(), kPlannedWorkersMax);
  FaultKinds faults = FaultKinds::all();
  faults.remove_attackers();
  faults.remove(FaultKind::kListMismatch);  // Of sharded plans.
  EXPECT_EQ(seen, faults);
}

TEST(FaultPlan, RemovingOneKindKeepsTheOthers) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    const FaultPlan all = draw_plan(seed);
    FaultKinds fewer = FaultKinds::all();
    fewer.remove(FaultKind::kLoss);
    const FaultPlan less = draw_plan(seed, fewer);
    EXPECT_EQ(less.links.loss, 0.0);
    EXPECT_EQ(less.links.duplicate, all.links.duplicate);
    EXPECT_EQ(less.incidents.size(), all.incidents.size());
    EXPECT_EQ(less.calm_at, all.calm_at);
    EXPECT_EQ(less.parent, all.parent);
    ASSERT_EQ(less.jobs.size(), all.jobs.size());
    EXPECT_EQ(less.jobs[0].work.size(), all.jobs[0].work.size());
  }
}

TEST(FaultPlan, DrawsSumsOfOneRankInEveryShape) {
  for (const bool sharded : {false, true}) {
    uint32_t owned = 0;
    uint32_t disagreed = 0;
    for (uint64_t seed = 1; seed <= kSeeds; seed++) {
      const FaultPlan plan = draw_plan(seed, FaultKinds::all(), {.sharded = sharded});
      for (const JobPlan& job : plan.jobs) {
        for (const Collective& each : job.work) {
          owned += each.owner ? 1 : 0;
          EXPECT_LT(each.owner.value_or(0), job.world);
        }
        disagreed += job.disagreement && job.disagreement->owner ? 1 : 0;
      }
    }
    EXPECT_GT(owned, kSeeds / 2);
    EXPECT_GT(disagreed, 0U);
  }
}

TEST(FaultPlan, KindsHaveNames) {
  FaultKinds kinds;
  EXPECT_EQ(kinds.to_string(), "none");
  kinds.add(FaultKind::kLoss);
  kinds.add(FaultKind::kBadValue);
  EXPECT_EQ(kinds.to_string(), "loss,bad_value");
  EXPECT_EQ(fault_kind("clock_step"), FaultKind::kClockStep);
  EXPECT_FALSE(fault_kind("lightning").has_value());
}

}  // namespace
}  // namespace tributary::lab
