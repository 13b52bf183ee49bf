// SPDX-License-Identifier: Apache-2.0
// Method: on equal links without limits of computation, the time of an all-reduce must be equation
// 6 of the BytePS paper plus headers and the window's start and end. Then the same with the live
// aggregator's program and real sums, refusals, and links that are not equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/backends/backend.h"
#include "lab/cluster/plan.h"
#include "lab/run.h"
#include "plan/byteps_equations.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;

/// 1024 gradients with 32 bytes of head and 66 around them: (4096 + 98) / 4096.
constexpr double kFraming = 1.0240;

Scenario sharded(uint32_t workers, uint32_t spares, bool colocated = true) {
  Scenario scenario;
  scenario.backend = Backend::kSharded;
  scenario.workers = workers;
  scenario.aggregators = {.colocated = colocated, .spare = spares};
  scenario.iterations = 1;
  scenario.window = 1024;
  scenario.train = 4;
  scenario.model.kind = Model::kCustom;
  scenario.model.bucket_bytes = {64'000'000, 64'000'000};
  return scenario;
}

/// Returns the time of an iteration as a multiple of the time in which a link carries its tensors.
double tensor_times(const Scenario& scenario, const RunResult& result) {
  double bytes = 0;
  for (const uint64_t bucket : scenario.model.bucket_bytes) bytes += static_cast<double>(bucket);
  const double link_s = bytes * 8 / static_cast<double>(scenario.link.rate_bits_per_s);
  return in_seconds(result.mean_iteration) / link_s;
}

class ShardedTime : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ShardedTime, IsEquation6PlusFraming) {
  const uint32_t workers = GetParam();
  for (uint32_t spares = 0; spares <= workers; spares++) {
    const Scenario scenario = sharded(workers, spares);
    const double took = tensor_times(scenario, run_well(scenario));
    const double least = plan::byteps_optimum(workers, spares) * kFraming;
    EXPECT_GE(took, least) << spares << " spare machines";
    EXPECT_LE(took, least * 1.02) << spares << " spare machines";
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, ShardedTime, ::testing::Values(4U, 8U));

TEST(ShardedRun, FewSpareMachinesAloneAreTheBottleneck) {
  // A spare machine receives n / k tensors (BytePS paper, table 1).
  const Scenario scenario = sharded(4, 2, /*colocated=*/false);
  EXPECT_NEAR(tensor_times(scenario, run_well(scenario)), 2 * kFraming, 0.06);
}

TEST(ShardedRun, MoreSpareMachinesThanWorkersDoNotHelp) {
  const Scenario scenario = sharded(4, 6);
  EXPECT_NEAR(tensor_times(scenario, run_well(scenario)), kFraming, 0.04);
}

TEST(ShardedRun, LiveProgramAddsExactlyInTheSameTime) {
  for (const uint32_t spares : {0U, 1U, 2U, 4U}) {
    Scenario scenario = sharded(4, spares);
    scenario.train = 1;
    scenario.payload = Payload::kReal;
    scenario.model.bucket_bytes = {1'000'000, 3'000'000, 4'000};  // The last is too small to cut.
    scenario.window = 256;
    const double modelled = in_seconds(run_well(scenario).mean_iteration);
    scenario.backend = Backend::kShardedLive;
    const RunResult result = run_well(scenario);
    EXPECT_EQ(result.wrong_sums, 0U);
    EXPECT_EQ(result.checked_sums, 4U * 1'001'000);
    EXPECT_EQ(result.degraded_blocks, 0U);
    EXPECT_NEAR(in_seconds(result.mean_iteration), modelled, 0.05 * modelled) << spares;
  }
}

TEST(ShardedRun, StragglersAreMitigatedOnEveryAggregator) {
  Scenario scenario = sharded(4, 2);
  scenario.backend = Backend::kShardedLive;
  scenario.train = 1;
  scenario.payload = Payload::kReal;
  scenario.window = 256;
  scenario.model.bucket_bytes = {1'000'000};
  scenario.straggler.pattern = Straggling::kAbsent;
  scenario.straggler.worker = 3;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_GT(result.degraded_blocks, 0U);
  EXPECT_EQ(result.degraded_blocks, result.blocks);
}

TEST(ShardedRun, LossesAreRepairedOnEveryAggregator) {
  Scenario scenario = sharded(4, 2);
  scenario.backend = Backend::kShardedLive;
  scenario.train = 1;
  scenario.payload = Payload::kReal;
  scenario.window = 256;
  scenario.model.bucket_bytes = {4'000'000};
  scenario.link.faults.loss = 0.01;
  scenario.host.retransmission = true;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.checked_sums, 4U * 1'000'000);
}

TEST(ShardedPlan, WeightsAndWindowsFollowThePlanner) {
  const auto plan_of = [](const Scenario& scenario) {
    return plan_cluster(scenario, backend_kind(scenario.backend), {});
  };
  const auto plan = plan_of(sharded(4, 2));
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->aggregators.size(), 6U);
  // Equations 1 and 2: 3 / 10 and 1 / 10. The window has 1024 / 4 places.
  EXPECT_EQ(plan->aggregators[0].weight, 1U);
  EXPECT_EQ(plan->aggregators[5].weight, 3U);
  EXPECT_EQ(plan->aggregators[0].job.block_cnt_max, 32U);   // 25, as a power of two.
  EXPECT_EQ(plan->aggregators[5].job.block_cnt_max, 128U);  // 76.
  // With as many spare machines as workers, workers' machines have no aggregator.
  const auto all_spare = plan_of(sharded(4, 4));
  ASSERT_TRUE(all_spare) << all_spare.error().text;
  EXPECT_EQ(all_spare->aggregators.size(), 4U);
  EXPECT_EQ(all_spare->host_nodes.front(), "worker-0");
}

TEST(ShardedPlan, JobWithoutAnAggregatorIsRefused) {
  const auto checked = check(sharded(4, 0, /*colocated=*/false));
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().text,
              HasSubstr("aggregators.spare=0 is not allowed with backend=sharded and "
                        "aggregators.colocated=false; allowed: 1 to 256"));
  Scenario other = sharded(4, 0, /*colocated=*/false);
  other.backend = Backend::kRing;  // Has no aggregators; the keys are not its.
  EXPECT_TRUE(check(other));
}

}  // namespace
}  // namespace tributary::lab
