// SPDX-License-Identifier: Apache-2.0
// Method: bounds over many seeds, and the same seed with and without shards.
#include "lab/faults/shard_plan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace tributary::lab {
namespace {

constexpr uint64_t kSeeds = 1000;

FaultPlan sharded(uint64_t seed, FaultKinds only = FaultKinds::all()) {
  return draw_plan(seed, only, {.sharded = true});
}

TEST(ShardPlan, StaysWithinItsBounds) {
  std::set<size_t> counts;
  uint32_t one_cable = 0;
  uint32_t refusing = 0;
  uint32_t other_lists = 0;
  uint32_t without_weight = 0;
  for (uint64_t seed = 1; seed <= kSeeds; seed++) {
    const FaultPlan plan = sharded(seed);
    counts.insert(plan.parent.size());
    EXPECT_TRUE(plan.sharded);
    EXPECT_EQ(plan.levels(), 1U);
    for (uint32_t i = 0; i < plan.parent.size(); i++) {
      EXPECT_TRUE(plan.is_root(i));
      EXPECT_FALSE(plan.has_children(i));
    }
    for (const JobPlan& job : plan.jobs) {
      ASSERT_TRUE(job.sharded.has_value());
      const auto& weights = job.sharded->weights;
      ASSERT_EQ(weights.size(), plan.parent.size());
      EXPECT_GT(std::accumulate(weights.begin(), weights.end(), 0U), 0U);
      for (const uint32_t weight : weights) without_weight += weight == 0 ? 1 : 0;
      other_lists += job.sharded->other_list.has_value() ? 1 : 0;
    }
    for (const Incident& incident : plan.incidents) {
      EXPECT_LE(incident.at + incident.length, plan.calm_at) << seed;
      EXPECT_FALSE(incident.shard && incident.aggregator);
      one_cable += incident.shard ? 1 : 0;
      refusing += incident.refuses ? 1 : 0;
    }
  }
  EXPECT_EQ(counts, (std::set<size_t>{2, 3, 4}));
  for (const uint32_t count : {one_cable, refusing, other_lists, without_weight}) {
    EXPECT_GT(count, 20U);
  }
}

TEST(ShardPlan, LeavesTheRestOfThePlanAsItIs) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    const FaultPlan plan = sharded(seed);
    const FaultPlan whole = draw_plan(seed);
    EXPECT_FALSE(whole.sharded);
    EXPECT_FALSE(whole.kinds.has(FaultKind::kListMismatch));
    EXPECT_EQ(plan.links.loss, whole.links.loss);
    EXPECT_EQ(plan.propagation, whole.propagation);
    ASSERT_EQ(plan.jobs.size(), whole.jobs.size());
    EXPECT_EQ(plan.jobs[0].world, whole.jobs[0].world);
    // A tree's aggregator may be short of buffers (kMemoryRefusal).
    if (whole.kinds.has(FaultKind::kMemoryRefusal)) continue;
    EXPECT_EQ(plan.jobs[0].window, whole.jobs[0].window);
    EXPECT_EQ(plan.jobs[0].work.size(), whole.jobs[0].work.size());
  }
}

TEST(ShardPlan, RemovingOneKindKeepsTheOthers) {
  FaultKinds fewer = FaultKinds::all();
  fewer.remove(FaultKind::kDelay);
  for (uint64_t seed = 1; seed <= 200; seed++) {
    const FaultPlan all = sharded(seed);
    const FaultPlan less = sharded(seed, fewer);
    EXPECT_EQ(less.parent, all.parent);
    size_t at = 0;
    for (const Incident& incident : all.incidents) {
      if (incident.kind == FaultKind::kDelay) continue;
      ASSERT_LT(at, less.incidents.size());
      EXPECT_EQ(less.incidents[at].shard, incident.shard);
      EXPECT_EQ(less.incidents[at].refuses, incident.refuses);
      at++;
    }
  }
}

}  // namespace
}  // namespace tributary::lab
