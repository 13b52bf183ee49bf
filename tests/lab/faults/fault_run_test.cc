// SPDX-License-Identifier: Apache-2.0
// Method: hand-made plans with known outcomes, then many seeds; the judges check each run.
#include "lab/faults/fault_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lab/faults/expect_good.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

/// Seeds of a walk, for a few seconds.
constexpr uint32_t kWalks = testing::kIsSanitized ? 40 : 300;
/// Seeds for the promise about losses, each at four rates in two shapes.
constexpr uint32_t kLossWalks = testing::kIsSanitized ? 2 : 10;

/// Four workers that are never slow; mitigation with the default timeout of 10 ms.
FaultPlan steady(uint64_t seed, double loss, bool tree) {
  FaultPlan plan;
  plan.seed = seed;
  if (loss > 0) plan.kinds.add(FaultKind::kLoss);
  if (tree) plan.parent = {0, 0, 0};
  plan.links.loss = loss;
  // Longer than the work, so all of it runs under loss.
  plan.calm_at = seconds(20);
  JobPlan job;
  job.config.mitigation = true;
  job.config.block_cnt_max = 64;
  job.config.block_grad_max = 32;
  job.world = 4;
  job.gradients = 4;
  job.window = 32;
  job.in_flight = 2;
  job.compute_max = microseconds(500);
  job.work.assign(3 + kCalmCollectives, {.element_count = 1000});
  plan.jobs.push_back(job);
  return plan;
}

// Loss is not straggling: not at the join, not in a tree, not at 5 %. The seeds are fixed, because
// the promise concerns probabilities: at 10 %, one block in 300,000 was degraded in a tree, and
// none without a tree.
TEST(FaultRun, LossAloneNeverDegradesABlock) {
  for (const double loss : {0.0, 0.01, 0.02, 0.05}) {
    for (const bool tree : {false, true}) {
      for (uint64_t seed = 1; seed <= kLossWalks; seed++) {
        SCOPED_TRACE(::testing::Message() << "loss " << loss << ", tree " << tree << ", " << seed);
        FaultPlan plan = steady(seed, loss, tree);
        if (loss > 0) {
          plan.links.duplicate = 0.02;
          plan.links.reorder = 0.05;
          plan.links.reorder_max = milliseconds(1);
        }
        const FaultResult result = run_faults(plan);
        expect_good(result);
        ASSERT_EQ(result.degraded_blocks, 0U);
        ASSERT_EQ(result.restarts, 0U);
      }
    }
  }
}

TEST(FaultRun, SumsOfOneRankReachThatRankAlone) {
  for (const bool tree : {false, true}) {
    for (const bool mitigation : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "tree " << tree << ", mitigation " << mitigation);
      FaultPlan plan = steady(1, 0.05, tree);
      plan.jobs[0].config.mitigation = mitigation;
      for (uint32_t i = 0; i < plan.jobs[0].work.size(); i++) {
        plan.jobs[0].work[i].owner = i % plan.jobs[0].world;
      }
      const FaultResult result = run_faults(plan);
      expect_good(result);
      EXPECT_GT(result.owned_sums, 0U);
    }
  }
}

TEST(FaultRun, SendsNothingTwiceWithoutLoss) {
  const FaultResult result = run_faults(steady(1, 0, false));
  expect_good(result);
  EXPECT_EQ(result.repairs, 0U);
  EXPECT_GT(run_faults(steady(1, 0.05, false)).repairs, 0U);
}

TEST(FaultRun, CrashedWorkerReturnsAndTheJobRestarts) {
  FaultPlan plan = steady(1, 0, false);
  plan.kinds.add(FaultKind::kWorkerCrash);
  plan.jobs[0].config.mitigation = false;
  plan.jobs[0].compute_max = milliseconds(50);
  plan.jobs[0].deadline = seconds(10);
  plan.incidents = {
      {.kind = FaultKind::kWorkerCrash, .at = milliseconds(60), .target = 2, .length = seconds(1)}};
  const FaultResult result = run_faults(plan, /*traced=*/true);
  expect_good(result);
  EXPECT_GE(result.restarts, 1U);
  EXPECT_EQ(result.faults[static_cast<uint32_t>(FaultKind::kWorkerCrash)], 1U);
  EXPECT_THAT(result.trace, Contains(::testing::HasSubstr("rank 2 process 0 crashes")));
  EXPECT_THAT(result.trace, Contains(::testing::HasSubstr("rank 2 process 1 begins")));
}

// A modelled PFE under the same faults: the same program on a different machine.
TEST(FaultRun, ModelledPfeKeepsThePromises) {
  FaultPlan plan = steady(1, 0.05, false);
  plan.machine = FaultMachine::kPfe;
  const FaultResult result = run_faults(plan);
  expect_good(result);
  EXPECT_EQ(result.degraded_blocks, 0U);
}

TEST(FaultRun, PromisesHoldUnderRandomFaults) {
  const uint64_t first = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(first));
  for (uint64_t seed = first; seed < first + kWalks && !HasFailure(); seed++) {
    SCOPED_TRACE(::testing::Message() << "tributary lab faults --seed " << seed << " --trace");
    expect_good(run_faults(draw_plan(seed)));
  }
}

TEST(FaultRun, SameSeedGivesTheSameDigest) {
  const uint64_t first = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(first));
  uint64_t digest_before = 0;
  for (uint64_t seed = first; seed < first + 10; seed++) {
    const FaultResult once = run_faults(draw_plan(seed));
    const FaultResult again = run_faults(draw_plan(seed), /*traced=*/true);
    EXPECT_EQ(once.digest, again.digest);
    EXPECT_EQ(once.packets, again.packets);
    EXPECT_NE(once.digest, digest_before);
    digest_before = once.digest;
  }
}

}  // namespace
}  // namespace tributary::lab
