// SPDX-License-Identifier: Apache-2.0
// Method: SwitchML whose switch times out compared with SwitchML that waits, with the same
// straggler. Checks which is faster and how much is lost. Every sum must have as many contributors
// as it reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/backends/tofino_node.h"
#include "tests/lab/part_of.h"
#include "tests/lab/run_bed.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;

/// Two buckets of 512 and 256 packets; each iteration computes for 3 ms.
Scenario cluster(Backend backend) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = 4;
  scenario.iterations = 12;
  scenario.mitigation.timeout = microseconds(500);
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {512 * 256, 256 * 256},
                    .forward = milliseconds(1),
                    .backward = milliseconds(2)};
  return scenario;
}

TEST(SwitchmlTimeoutRun, RunWithoutStragglersMatchesSwitchml) {
  const RunResult waiting = run_well(cluster(Backend::kSwitchml64));
  const RunResult timing_out = run_well(cluster(Backend::kSwitchml64Timeout));
  EXPECT_EQ(timing_out.degraded_blocks, 0U);
  EXPECT_EQ(part_of(timing_out.aggregators.at(0), "slots given up"), 0);
  EXPECT_NEAR(in_seconds(timing_out.mean_iteration), in_seconds(waiting.mean_iteration),
              0.001 * in_seconds(waiting.mean_iteration));
  // Each period sweeps every slot of both sets, whether or not the slot is in use.
  const double sweeps = in_seconds(timing_out.total) / 500e-6;
  EXPECT_NEAR(part_of(timing_out.aggregators.at(0), "sweeping packets"),
              sweeps * 2 * part_of(timing_out.aggregators.at(0), "slots"),
              3 * part_of(timing_out.aggregators.at(0), "slots"));
}

TEST(SwitchmlTimeoutRun, OthersContinueWhileOneWorkerPauses) {
  const auto run = [](Backend backend) {
    Scenario scenario = cluster(backend);
    scenario.payload = Payload::kReal;
    scenario.straggler.pattern = Straggling::kPause;
    scenario.straggler.worker = 1;
    scenario.straggler.pause_at = milliseconds(5);
    scenario.straggler.pause_for = milliseconds(60);
    return run_well(scenario);
  };
  const RunResult waiting = run(Backend::kSwitchml64);
  const RunResult timing_out = run(Backend::kSwitchml64Timeout);
  // Twelve iterations of 3 ms, and the pause: waiting workers wait for its end.
  EXPECT_GT(waiting.mean_iteration * 12, milliseconds(36 + 55));
  // A bucket takes one to two periods a pool, and there are four pools an iteration.
  EXPECT_LT(timing_out.mean_iteration * 12, milliseconds(36 + 40));
  EXPECT_EQ(waiting.degraded_blocks, 0U);
  EXPECT_GT(timing_out.degraded_blocks, 0U);
  EXPECT_GT(part_of(timing_out.aggregators.at(0), "slots given up"), 0);
  for (const RunResult* result : {&waiting, &timing_out}) {
    EXPECT_EQ(result->wrong_sums, 0U);
    EXPECT_GT(result->checked_sums, 0U);
    for (const WorkerResult& worker : result->workers) EXPECT_EQ(worker.iterations, 12U);
  }
  // The switch keeps one result for each set, so the late worker never gets the results between.
  EXPECT_GT(timing_out.workers[1].sums_missed, 0U);
  EXPECT_EQ(timing_out.workers[0].sums_missed, 0U);
  // The results count workers without naming them.
  uint64_t unclear = 0;
  for (const WorkerResult& worker : timing_out.workers) unclear += worker.contributions_unclear;
  EXPECT_EQ(unclear, timing_out.degraded_blocks);
  EXPECT_EQ(timing_out.workers[0].contributions_lost, 0U);
  // The protocol has no way to receive without contributing.
  EXPECT_EQ(timing_out.workers[1].iterations_skipped, 0U);
}

TEST(SwitchmlTimeoutRun, AbsentWorkerTimesOutInEveryPhase) {
  Scenario scenario = cluster(Backend::kSwitchml64);
  scenario.straggler.pattern = Straggling::kAbsent;
  EXPECT_THAT(run_scenario(scenario).error().text, HasSubstr("straggler.pattern=absent"));
  scenario.backend = Backend::kSwitchml64Timeout;
  scenario.payload = Payload::kReal;
  scenario.iterations = 2;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.degraded_fraction(), 1.0);
  // 768 packets an iteration; the sweeps give up one slot for each.
  EXPECT_EQ(part_of(result.aggregators.at(0), "slots given up"), 2 * 768);
}

TEST(SwitchmlTimeoutRun, SumsAreExactOverBadLinks) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t round = 0; round < 4; round++) {
    Scenario scenario = cluster(Backend::kSwitchml64Timeout);
    scenario.seed = prng.any_u32();
    scenario.workers = 2 + prng.below(5);
    scenario.iterations = 4;
    scenario.payload = Payload::kReal;
    scenario.switchml.pool = 1 + prng.below(60);
    scenario.switchml.timeout = microseconds(50 + prng.below(500));
    scenario.mitigation.timeout = microseconds(100 + prng.below(1000));
    scenario.host.retransmission = true;
    scenario.link.faults = {.loss = prng.below(50) * 0.001,
                            .corrupt = 0.001,
                            .duplicate = prng.below(50) * 0.001,
                            .jitter = microseconds(prng.below(10))};
    scenario.straggler.pattern = Straggling::kSlowWorker;
    scenario.straggler.probability = 0.3;
    scenario.straggler.typical_iteration = milliseconds(4);
    const RunResult result = run_well(scenario);
    EXPECT_GT(result.checked_sums, 0U);
    EXPECT_EQ(result.wrong_sums, 0U);
    for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.iterations, 4U);
  }
}

TEST(SwitchmlTimeoutRun, RefusesATimeoutShorterThanASweep) {
  Scenario scenario = cluster(Backend::kSwitchml64Timeout);
  scenario.switchml.pool = 8'192;
  scenario.mitigation.timeout = microseconds(443);
  EXPECT_THAT(run_scenario(scenario).error().text,
              HasSubstr("mitigation.timeout_ms=0.443 is not allowed; allowed with "
                        "backend=switchml-64-timeout: 0.444 or more"));
  scenario.mitigation.timeout = microseconds(444);
  scenario.iterations = 1;
  EXPECT_TRUE(run_scenario(scenario).has_value());
}

TEST(SwitchmlTimeoutRun, LateWorkerMayStopTheRun) {
  Scenario scenario = cluster(Backend::kSwitchml64Timeout);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.pause_at = milliseconds(5);
  scenario.straggler.pause_for = milliseconds(60);
  scenario.mitigation.on_desynchronised = OnDesynchronised::kStop;
  EXPECT_THAT(run_scenario(scenario).error().text, HasSubstr("summed without this rank"));
}

}  // namespace
}  // namespace tributary::lab
