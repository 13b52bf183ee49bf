// SPDX-License-Identifier: Apache-2.0
// Method: the time of one packet, and the time of a tensor compared with Trio-ML on the same
// machine. Then exact sums over links that lose and duplicate packets, and the same values as on
// the Tofino.
#include "lab/backends/switchml_trio_node.h"

#include <gtest/gtest.h>

#include "tests/lab/part_of.h"
#include "tests/lab/run_bed.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using testing::run_well;

Scenario on_trio(uint32_t workers = 2) {
  Scenario scenario;
  scenario.backend = Backend::kSwitchmlOnTrio;
  scenario.workers = workers;
  scenario.iterations = 2;
  scenario.mitigation.history = 8;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {1024},
                    .forward = milliseconds(1),
                    .backward = milliseconds(2)};
  return scenario;
}

TEST(SwitchmlTrioNode, OnePacketTakesTheTimeOfTrio) {
  const RunResult result = run_well(on_trio());
  const AggregatorResult& aggregator = result.aggregators.at(0);
  EXPECT_EQ(aggregator.packets, 4U);
  EXPECT_EQ(aggregator.dropped, 0U);
  // 64 us with 256 gradients (Trio paper §6.3, between 64 and 1024).
  EXPECT_GT(aggregator.latency.mean, microseconds(50));
  EXPECT_LT(aggregator.latency.mean, microseconds(80));
  EXPECT_GT(part_of(aggregator, "instructions per packet"), 100);
  EXPECT_GT(part_of(aggregator, part_name(PartKind::kMemory)), 0);
  EXPECT_EQ(part_of(aggregator, part_name(PartKind::kSlots)), 1024);
}

TEST(SwitchmlTrioNode, PfeLimitsTheRateOfManySenders) {
  Scenario scenario = on_trio(6);
  scenario.model = {
      .kind = Model::kCustom, .bucket_bytes = {uint64_t{4} << 20}, .forward = {}, .backward = {}};
  const RunResult result = run_well(scenario);
  // Six times 2^20 gradients. A PFE adds at most 6 in a nanosecond (Trio paper §6.3).
  EXPECT_GT(result.mean_iteration, microseconds(1048));
  scenario.backend = Backend::kSwitchml256;
  EXPECT_GT(result.mean_iteration, run_well(scenario).mean_iteration * 2);
}

TEST(SwitchmlTrioNode, SumsAreExactOverBadLinks) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t round = 0; round < 3; round++) {
    Scenario scenario = on_trio(1 + prng.below(6));
    scenario.seed = prng.any_u32();
    scenario.payload = Payload::kReal;
    scenario.switchml.pool = 1 + prng.below(40);
    scenario.switchml.timeout = microseconds(200 + prng.below(500));
    scenario.host.retransmission = true;
    scenario.model.backward = microseconds(50);
    scenario.model.bucket_bytes = {4ULL * (1 + prng.below(5000)), 4ULL * (1 + prng.below(20'000)),
                                   4};
    scenario.link.faults = {.loss = prng.below(100) * 0.001,
                            .corrupt = 0.001,
                            .duplicate = prng.below(100) * 0.001,
                            .jitter = microseconds(prng.below(10))};
    const RunResult result = run_well(scenario);
    EXPECT_GT(result.checked_sums, 0U);
    EXPECT_EQ(result.wrong_sums, 0U);
    for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.iterations, 2U);
  }
}

TEST(SwitchmlTrioNode, ElidedPayloadAndTrainsChangeLittle) {
  Scenario scenario = on_trio(3);
  scenario.model.bucket_bytes = {3'000'000, 500'000};
  scenario.switchml.pool = 1024;
  const double elided = in_seconds(run_well(scenario).mean_iteration);
  scenario.payload = Payload::kReal;
  EXPECT_NEAR(in_seconds(run_well(scenario).mean_iteration), elided, 0.001 * elided);
  scenario.payload = Payload::kElided;
  scenario.train = 32;
  EXPECT_NEAR(in_seconds(run_well(scenario).mean_iteration), elided, 0.02 * elided);
}

}  // namespace
}  // namespace tributary::lab
