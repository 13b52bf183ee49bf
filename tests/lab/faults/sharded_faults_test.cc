// SPDX-License-Identifier: Apache-2.0
// Method: hand-made faults of single aggregators with known outcomes, then many seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/faults/fault_run.h"
#include "tests/lab/faults/expect_good.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint32_t kWalks = testing::kIsSanitized ? 20 : 100;

/// Four ranks on three aggregators, all equal; tensors large enough for all of them. Computing
/// takes up to 50 ms, so the ranks notice faults at different times.
FaultPlan three_shards() {
  FaultPlan plan;
  plan.sharded = true;
  plan.parent = {0, 1, 2};
  plan.calm_at = seconds(20);
  JobPlan job;
  job.config.block_cnt_max = 64;
  job.config.block_grad_max = 32;
  job.world = 4;
  job.gradients = 4;
  job.window = 32;
  job.compute_max = milliseconds(50);
  job.deadline = seconds(10);
  job.notice_after = seconds(12);
  job.work.assign(10 + kCalmCollectives, {.element_count = 600});
  job.sharded = ShardedJob{.weights = {1, 1, 1}};
  plan.jobs.push_back(job);
  return plan;
}

/// Aggregator 1 dies for five seconds.
FaultPlan with_crash() {
  FaultPlan plan = three_shards();
  plan.kinds.add(FaultKind::kAggregatorCrash);
  plan.incidents = {{.kind = FaultKind::kAggregatorCrash,
                     .at = milliseconds(160),
                     .target = 1,
                     .length = seconds(5),
                     .aggregator = true,
                     .refuses = true}};
  return plan;
}

/// Returns the number of lines of the trace with this text.
size_t count_of(const FaultResult& result, const std::string& text) {
  return static_cast<size_t>(
      std::count_if(result.trace.begin(), result.trace.end(),
                    [&text](const auto& line) { return line.find(text) != std::string::npos; }));
}

TEST(ShardedFaults, NothingHappensWithoutAFault) {
  for (const bool mitigation : {false, true}) {
    FaultPlan plan = three_shards();
    plan.jobs[0].config.mitigation = mitigation;
    plan.jobs[0].compute_max = microseconds(500);
    const FaultResult result = run_faults(plan);
    expect_good(result);
    EXPECT_EQ(result.restarts, 0U);
    EXPECT_EQ(result.repairs, 0U);
    EXPECT_EQ(result.degraded_blocks, 0U);
  }
}

TEST(ShardedFaults, LossAloneNeverDegradesABlock) {
  for (uint64_t seed = 1; seed <= 3; seed++) {
    FaultPlan plan = three_shards();
    plan.seed = seed;
    plan.kinds.add(FaultKind::kLoss);
    plan.links.loss = 0.05;
    plan.jobs[0].config.mitigation = true;
    plan.jobs[0].compute_max = microseconds(500);
    const FaultResult result = run_faults(plan);
    expect_good(result);
    EXPECT_EQ(result.degraded_blocks, 0U);
  }
}

TEST(ShardedFaults, EveryRankNamesTheAggregatorThatDied) {
  const FaultResult result = run_faults(with_crash(), /*traced=*/true);
  expect_good(result);
  EXPECT_EQ(result.restarts, 1U);
  // Aggregator 1 is the second of the list.
  EXPECT_EQ(count_of(result, "ends: aggregator_gone"), 4U);
  EXPECT_EQ(count_of(result, "10.0.2.1:12000"), 4U);
  EXPECT_EQ(count_of(result, "2 of 3"), 4U);
}

// Some ranks wait for a living aggregator at that time. They learn the name from it.
TEST(ShardedFaults, LateRanksLearnTheNameFromALivingAggregator) {
  size_t learned = 0;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    FaultPlan plan = with_crash();
    plan.seed = seed;
    plan.jobs[0].compute_max = seconds(1);
    const FaultResult result = run_faults(plan, /*traced=*/true);
    expect_good(result);
    learned += count_of(result, "has lost aggregator 10.0.2.1:12000 (2 of 3) and left");
  }
  EXPECT_GT(learned, 0U);
}

TEST(ShardedFaults, JobGoesOnWithTheOtherAggregators) {
  FaultPlan plan = with_crash();
  plan.jobs[0].sharded->leaves_out_lost = true;
  plan.jobs[0].notice_after = milliseconds(100);
  const FaultResult result = run_faults(plan, /*traced=*/true);
  expect_good(result);
  EXPECT_EQ(result.restarts, 1U);
  EXPECT_THAT(result.trace, Contains(HasSubstr("the list has 2 aggregators")));
}

// Neither says a word to the ranks. The judge expects that all ranks are told in time.
TEST(ShardedFaults, SilentAggregatorIsNamedToEveryRank) {
  for (const FaultKind kind :
       {FaultKind::kAggregatorCrash, FaultKind::kAggregatorPause, FaultKind::kLinkCut}) {
    SCOPED_TRACE(to_string(kind));
    FaultPlan plan = with_crash();
    plan.kinds = {};
    plan.kinds.add(kind);
    plan.incidents[0].kind = kind;
    plan.incidents[0].refuses = false;
    const FaultResult result = run_faults(plan, /*traced=*/true);
    expect_good(result);
    EXPECT_EQ(result.restarts, 1U);
    EXPECT_EQ(count_of(result, "ends: aggregator_gone"), 4U);
    EXPECT_EQ(count_of(result, "10.0.2.1:12000"), 4U);
    EXPECT_EQ(count_of(result, "2 of 3"), 4U);
  }
}

TEST(ShardedFaults, ShortSilenceEndsNothing) {
  for (const FaultKind kind : {FaultKind::kAggregatorPause, FaultKind::kLinkCut}) {
    SCOPED_TRACE(to_string(kind));
    FaultPlan plan = with_crash();
    plan.kinds = {};
    plan.kinds.add(kind);
    plan.incidents[0].kind = kind;
    plan.incidents[0].length = milliseconds(1900);
    const FaultResult result = run_faults(plan);
    expect_good(result);
    EXPECT_EQ(result.restarts, 0U);
  }
}

TEST(ShardedFaults, PauseOfOneAggregatorOnlyDelays) {
  FaultPlan plan = with_crash();
  plan.kinds = {};
  plan.kinds.add(FaultKind::kAggregatorPause);
  plan.incidents[0].kind = FaultKind::kAggregatorPause;
  plan.incidents[0].length = milliseconds(200);
  const FaultResult result = run_faults(plan);
  expect_good(result);
  EXPECT_EQ(result.restarts, 0U);
}

TEST(ShardedFaults, CutBetweenOneRankAndOneAggregatorIsRepaired) {
  FaultPlan plan = with_crash();
  plan.kinds = {};
  plan.kinds.add(FaultKind::kLinkCut);
  plan.incidents = {{.kind = FaultKind::kLinkCut,
                     .at = milliseconds(160),
                     .target = 2,
                     .length = seconds(1),
                     .shard = 1}};
  const FaultResult result = run_faults(plan);
  expect_good(result);
  EXPECT_EQ(result.restarts, 0U);
}

TEST(ShardedFaults, DifferentListsAreRefusedToAllRanks) {
  FaultPlan plan = three_shards();
  plan.kinds.add(FaultKind::kListMismatch);
  plan.jobs[0].sharded->other_list = 2;
  const FaultResult result = run_faults(plan, /*traced=*/true);
  expect_good(result);
  EXPECT_EQ(result.restarts, 1U);
  EXPECT_EQ(count_of(result, "rank 2 of job 0 has another list of aggregators"), 0U);
  EXPECT_GT(count_of(result, "has another list of aggregators"), 0U);
  EXPECT_EQ(result.faults[static_cast<uint32_t>(FaultKind::kListMismatch)], 1U);
}

// A rank is a permanent straggler at an aggregator until it contributes there. In the run of this
// seed, the aggregator's next blocks are those of the last collective.
TEST(ShardedFaults, PermanentStragglerMayMissTheFirstBlocksOfAnAggregator) {
  expect_good(run_faults(draw_plan(349038627169520432, FaultKinds::all(), {.sharded = true})));
}

TEST(ShardedFaults, PromisesHoldUnderRandomFaults) {
  const uint64_t first = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(first));
  for (uint64_t seed = first; seed < first + kWalks && !HasFailure(); seed++) {
    SCOPED_TRACE(::testing::Message()
                 << "tributary lab faults --sharded --seed " << seed << " --trace");
    expect_good(run_faults(draw_plan(seed, FaultKinds::all(), {.sharded = true})));
  }
}

TEST(ShardedFaults, SameSeedGivesTheSameDigest) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  const FaultPlan plan = draw_plan(seed, FaultKinds::all(), {.sharded = true});
  EXPECT_EQ(run_faults(plan).digest, run_faults(plan, /*traced=*/true).digest);
}

}  // namespace
}  // namespace tributary::lab
