// SPDX-License-Identifier: Apache-2.0
// Method: more workers than a message can name: a tree and a ring, with block counts and bounds by
// hand; then the refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;

/// Workers that only communicate, for two iterations.
Scenario many(Backend backend, uint32_t workers, uint64_t blocks) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.iterations = 2;
  scenario.window = 16;
  scenario.mitigation.history = 4;
  scenario.mitigation.timer_threads = 10;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {4096 * blocks}};
  return scenario;
}

TEST(ScaleRun, TreeAddsForMoreWorkersThanAResultNames) {
  for (const Topology topology : {Topology::kTwoLevel, Topology::kChassis}) {
    Scenario scenario = many(Backend::kTrioMl, 320, 20);
    scenario.topology = topology;
    scenario.leaves = 2;
    const RunResult result = run_well(scenario);
    EXPECT_EQ(result.workers.size(), 320U);
    EXPECT_EQ(result.blocks, 320U * 20 * 2);
    EXPECT_EQ(result.degraded_blocks, 0U);
    EXPECT_EQ(result.iterations.size(), 2U);
    ASSERT_EQ(result.aggregators.size(), 3U);
    EXPECT_EQ(run_well(scenario).digest, result.digest);
  }
}

TEST(ScaleRun, StragglersOfALargeTreeDegradeItsBlocks) {
  Scenario scenario = many(Backend::kTrioMl, 260, 4);
  scenario.topology = Topology::kTwoLevel;
  scenario.leaves = 4;
  scenario.straggler.pattern = Straggling::kAbsent;
  scenario.straggler.workers = {200};
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.degraded_blocks, result.blocks);
  EXPECT_GE(result.blocks, 259U * 4 * 2);
}

TEST(ScaleRun, RingOfManyTakesTwiceItsTensor) {
  Scenario scenario = many(Backend::kRing, 300, 300);
  scenario.iterations = 1;
  const RunResult result = run_well(scenario);
  // 2 (n - 1) steps with a packet each, one after the other: at least 333.92 ns on two cables each.
  const Duration least = picoseconds(333'920) * 2 * 2 * 299;
  EXPECT_GE(result.mean_iteration, least);
  EXPECT_LE(result.mean_iteration, least * 5);
  EXPECT_EQ(result.blocks, 300U * 300);
}

std::string refusal(const Scenario& scenario) {
  const auto result = run_scenario(scenario);
  return result ? "accepted" : result.error().text;
}

TEST(ScaleRun, RefusesWhatNoMessageCanName) {
  EXPECT_EQ(refusal(many(Backend::kRing, 1025, 1)),
            "workers=1025 is not allowed; allowed: a whole number from 1 to 1024");
  EXPECT_EQ(refusal(many(Backend::kTrioMl, 257, 1)),
            "workers=257 is not allowed; allowed: 1 to 256 at one aggregator; more with "
            "topology=two-level or chassis");
  EXPECT_EQ(refusal(many(Backend::kPsDedicated, 257, 1)),
            "workers=257 is not allowed; allowed: 1 to 256 with backend=ps-dedicated; more with "
            "trio-ml, trio-ml-wait and ring");
  Scenario wide = many(Backend::kTrioMl, 1024, 1);
  wide.topology = Topology::kTwoLevel;
  wide.leaves = 2;
  EXPECT_EQ(refusal(wide),
            "leaves=2 is not allowed; allowed: at least 4, for up to 256 workers each");
  Scenario real = many(Backend::kRing, 257, 1);
  real.payload = Payload::kReal;
  EXPECT_THAT(refusal(real),
              HasSubstr("payload=real is not allowed; allowed: elided, with more than "
                        "256 workers"));
}

}  // namespace
}  // namespace tributary::lab
