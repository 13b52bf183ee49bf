// SPDX-License-Identifier: Apache-2.0
// Method: a worker that stands still until the results it misses are evicted. It drops out, and the
// run's times and shares are those of the other workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using testing::four_workers;
using testing::run_well;

/// A worker that pauses until its results are evicted: a small cache, and no worker waits for it.
Scenario forgetful() {
  Scenario scenario = four_workers(Backend::kTrioMl);
  scenario.model.bucket_bytes = {4096 * 32, 4096 * 32};
  scenario.window = 16;
  scenario.mitigation.history = 1;
  scenario.mitigation.timeout = milliseconds(1);
  scenario.mitigation.permanent_after = milliseconds(10);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.worker = 1;
  scenario.straggler.pause_at = milliseconds(25);
  scenario.straggler.pause_for = milliseconds(200);
  scenario.iterations = 40;
  return scenario;
}

TEST(DropoutRun, WorkerPastTheCacheDropsOut) {
  const Scenario scenario = forgetful();
  const RunResult result = run_well(scenario);
  EXPECT_TRUE(result.workers[1].dropped_out);
  EXPECT_LT(result.workers[1].iterations, 40U);
  EXPECT_EQ(result.workers[0].iterations, 40U);
  EXPECT_EQ(result.iterations.size(), 40U);
  // Times and shares are those of the three others.
  const uint64_t blocks = 2 * (4096 * 32 / 4) / scenario.gradients;
  EXPECT_EQ(result.blocks, 3 * 40 * blocks);
  EXPECT_EQ(result.degraded_blocks % 3, 0U);
  EXPECT_LT(result.degraded_blocks, result.blocks);
  Duration last;
  for (const uint32_t other : {0, 2, 3}) last = std::max(last, result.workers[other].finished_at);
  EXPECT_EQ(result.total, last);
  EXPECT_THAT(result.warnings,
              ::testing::ElementsAre(
                  "1 of 4 workers dropped out; times and shares are those of the others"));
}

TEST(DropoutRun, WorkerPastTheCacheMayStopTheRun) {
  Scenario scenario = forgetful();
  scenario.mitigation.on_desynchronised = OnDesynchronised::kStop;
  const auto result = run_scenario(scenario);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().text.find("worker 1"), std::string::npos) << result.error().text;
  EXPECT_NE(result.error().text.find("desynchronised"), std::string::npos);
}

}  // namespace
}  // namespace tributary::lab
