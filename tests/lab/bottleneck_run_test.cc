// SPDX-License-Identifier: Apache-2.0
// Method: runs whose hosts, or whose links, are the limit by the numbers of their packets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;
using ::testing::StartsWith;

TEST(BottleneckRun, NamesAWorkersBusyCpu) {
  Scenario scenario;
  scenario.backend = Backend::kSwitchml64;
  scenario.workers = 4;
  scenario.iterations = 1;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {200'000}};
  const RunResult result = run_well(scenario);
  // Small packets take the hosts longer than the wire.
  EXPECT_THAT(result.bottleneck, StartsWith("worker CPU is used "));
  for (const WorkerResult& worker : result.workers) {
    EXPECT_LE(worker.packet_cpu, worker.finished_at);
    EXPECT_GT(worker.packet_cpu * 10, worker.finished_at * 9);
  }
  // With free packets the link is the busiest, and the CPU the least busy.
  scenario.host.packet_cost = Duration();
  scenario.host.gradients_cost = Duration();
  const RunResult free = run_well(scenario);
  EXPECT_THAT(free.bottleneck, StartsWith("link "));
  EXPECT_THAT(free.bottleneck, HasSubstr("; worker CPU is used 0 % for packets"));
}

}  // namespace
}  // namespace tributary::lab
