// SPDX-License-Identifier: Apache-2.0
// Method: runs in which packets are lost, queues stay full or trains are long; the counts and
// shares of the result must fit together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/run.h"
#include "tests/lab/part_of.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_well;

/// One bucket, and no computation.
Scenario exchange_only(Backend backend, uint64_t bucket_bytes) {
  Scenario scenario = testing::four_workers(backend);
  scenario.iterations = 4;
  scenario.model.forward = scenario.model.backward = Duration();
  scenario.model.bucket_bytes = {bucket_bytes};
  return scenario;
}

// Losses in the queue and on the wire, and second copies: the worker gets the rest.
TEST(RunAccounting, CountsOfALinkAddUp) {
  Scenario scenario = exchange_only(Backend::kTrioMl, 4096 * 2000);
  scenario.window = 256;
  scenario.host.retransmission = true;
  scenario.link.queue_bytes_max = 100'000;
  scenario.link.faults = {.loss = 0.02, .duplicate = 0.03};
  const RunResult result = run_well(scenario);
  const auto link = std::ranges::find(result.links, "switch.0>worker-0.0", &LinkResult::name);
  ASSERT_NE(link, result.links.end());
  EXPECT_GT(link->dropped, 0U);
  EXPECT_GT(link->lost, link->dropped);
  EXPECT_GT(link->duplicated, 0U);
  const uint64_t arrived = link->packets - (link->lost - link->dropped) + link->duplicated;
  const WorkerResult& worker = result.workers[0];
  EXPECT_LE(worker.packets_received, arrived);
  EXPECT_GE(worker.packets_received + scenario.window, arrived);  // Some may be on the wire.
  const double packet_bytes = static_cast<double>(link->bytes) / static_cast<double>(link->packets);
  EXPECT_NEAR(static_cast<double>(worker.wire_bytes_received),
              packet_bytes * static_cast<double>(arrived), packet_bytes * 300);
  EXPECT_LT(worker.wire_bytes_received, link->bytes + link->duplicated * 4194);
}

// Background packets fill the queue of a cable until the end.
TEST(RunAccounting, NoLinkIsUsedMoreThanAlways) {
  Scenario scenario = exchange_only(Backend::kWaitingSwitch, 4'194'304);
  scenario.straggler.pattern = Straggling::kBackgroundFlow;
  scenario.straggler.background_share = 1;
  const RunResult result = run_well(scenario);
  double most = 0;
  for (const LinkResult& link : result.links) most = std::max(most, link.utilisation);
  EXPECT_GT(most, 0.95);
  EXPECT_LE(most, 1.0);
}

// Joins come before the training, and are most of the bytes of a run with two small packets.
TEST(RunAccounting, UseOfALinkIsThatOfTheTraining) {
  Scenario scenario = exchange_only(Backend::kTrioMl, 4 * 64);
  scenario.gradients = 64;
  scenario.iterations = 2;
  const RunResult result = run_well(scenario);
  const auto link = std::ranges::find(result.links, "worker-0.0>switch.0", &LinkResult::name);
  ASSERT_NE(link, result.links.end());
  // Two packets of 256 + 32 + 66 bytes at 100 Gbit/s, and at most two short control messages.
  const double share = 2 * 354 * 8 / 100e9 / in_seconds(result.total);
  EXPECT_GE(link->utilisation, 0.999 * share);
  EXPECT_LE(link->utilisation, 1.3 * share);
  EXPECT_GT(link->bytes, 2U * 354 * 2);
}

// In bursts the mean over the whole run is far below the use while threads work.
TEST(RunAccounting, FullestPartOfARunIsAtLeastItsMean) {
  for (const int64_t compute_ms : {0, 60}) {
    Scenario scenario = exchange_only(Backend::kTrioMl, 4'194'304);
    scenario.model.forward = milliseconds(compute_ms);
    scenario.window = 1024;
    const RunResult result = run_well(scenario);
    double mean = -1;
    for (const AggregatorResult::Part& part : result.aggregators.at(0).parts) {
      if (part.name.ends_with(" in use, when active")) mean = part.value;
      if (!part.name.ends_with(" in use, fullest stretch")) continue;
      EXPECT_GE(part.value, mean) << part.name;
      EXPECT_LE(part.value, 1.0) << part.name;
    }
    EXPECT_GT(mean, 0.0);
  }
}

/// The time for which a PFE's resources would work at full capacity.
struct Work {
  double banks_s;
  double crossbar_s;
};

/// Returns the work of a run in which timer threads send every result.
Work work_without_a_worker(uint32_t train) {
  Scenario scenario = exchange_only(Backend::kTrioMl, 4096 * 1024);
  scenario.workers = 6;
  scenario.iterations = 1;
  scenario.window = 1024;
  scenario.train = train;
  scenario.straggler.pattern = Straggling::kAbsent;
  scenario.mitigation.timeout = milliseconds(1);
  scenario.mitigation.history = 8;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.degraded_blocks, result.blocks);
  const AggregatorResult& pfe = result.aggregators.at(0);
  const double active_s = part_of(pfe, "active (a thread at work)");
  return {.banks_s = active_s * part_of(pfe, "RMW banks in use, when active"),
          .crossbar_s = active_s * part_of(pfe, "crossbar in use, when active")};
}

// A bank takes 32 cycles for 64 bytes of a contribution and 8 for those of a result. So the results
// are 5 % of the banks' work, and a sixth of the bytes that cross the crossbar.
TEST(RunAccounting, TrainsChargeTimerThreadsLikePackets) {
  const Work one = work_without_a_worker(1);
  const Work train = work_without_a_worker(32);
  EXPECT_NEAR(train.banks_s / one.banks_s, 1, 0.03);
  EXPECT_NEAR(train.crossbar_s / one.crossbar_s, 1, 0.03);
}

TEST(RunAccounting, WarnsOfRequestsWhoseTimeIsNotReserved) {
  Scenario scenario = exchange_only(Backend::kTrioMlWait, 4096 * 512);
  scenario.workers = 6;
  scenario.iterations = 1;
  scenario.window = 512;
  // Threads reserve 16 adds of 3.2 us each, and there are 2,020 threads and 12 banks: 8.6 ms.
  scenario.pfe.overrides = {{"clock_period_ns", 100}};
  EXPECT_THAT(run_well(scenario).warnings, ElementsAre(HasSubstr("set pfe.fidelity=exact")));
  scenario.pfe.fidelity = engine::Fidelity::kExact;
  EXPECT_THAT(run_well(scenario).warnings, IsEmpty());
}

TEST(RunAccounting, WarnsOfTrainsThatAreLongBesideTheBuckets) {
  Scenario scenario = exchange_only(Backend::kWaitingSwitch, 4096 * 1000);
  scenario.train = 32;
  EXPECT_THAT(run_well(scenario).warnings, IsEmpty());  // 32 trains for 1,000 packets.
  scenario.model.bucket_bytes = {4096 * 100};
  EXPECT_THAT(run_well(scenario).warnings,
              ElementsAre(HasSubstr("Trains of 32 make 1.28 packets of each real one")));
}

}  // namespace
}  // namespace tributary::lab
