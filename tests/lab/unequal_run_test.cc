// SPDX-License-Identifier: Apache-2.0
// Method: short runs whose workers and links differ, with times by hand.
#include <gtest/gtest.h>

#include "lab/run.h"
#include "tests/lab/run_bed.h"
#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using testing::four_workers;
using testing::run_well;

TEST(UnequalRun, AllBackEndsMeetTheSameDelays) {
  const auto typical_of = [](Backend backend, Topology topology) {
    Scenario scenario = four_workers(backend);
    scenario.topology = topology;
    scenario.payload = Payload::kReal;
    scenario.straggler.pattern = Straggling::kSlowWorker;
    scenario.straggler.probability = 0.4;
    return run_well(scenario).typical_iteration;
  };
  // The ideal switch without stragglers.
  const Duration ideal = run_well(four_workers(Backend::kIdeal)).iterations[1];
  for (const Backend backend : {Backend::kTrioMl, Backend::kSwitchml256, Backend::kRing,
                                Backend::kPsColocated, Backend::kLive}) {
    EXPECT_EQ(typical_of(backend, Topology::kStar), ideal) << name_of(backend);
  }
  EXPECT_EQ(typical_of(Backend::kTrioMl, Topology::kChassis), ideal);
}

TEST(UnequalRun, PauseStopsAllNamedWorkers) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.pattern.add(Straggling::kFailSlow);
  scenario.straggler.workers = {1, 2};
  scenario.straggler.factor = 3;
  scenario.straggler.pause_at = milliseconds(25);
  scenario.straggler.pause_for = milliseconds(70);
  const RunResult result = run_well(scenario);
  // Both compute for thirty instead of ten milliseconds, and stand still at the same time.
  EXPECT_NEAR(in_seconds(result.total - without.total), 0.070 + 0.020 * scenario.iterations, 50e-6);
  for (const uint32_t rank : {1U, 2U}) {
    EXPECT_GT(result.workers[rank].computed, result.workers[0].computed * 2);
  }
}

TEST(UnequalRun, HeavyTailRunsAtBothEndsOfItsRange) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.host.deadline = seconds(1000);
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kHeavyTail;
  scenario.straggler.p99_over_p50 = 1;
  EXPECT_EQ(run_well(scenario).total, without.total);
  scenario.straggler.p99_over_p50 = 1000;
  const RunResult widest = run_well(scenario);
  ASSERT_EQ(widest.iterations.size(), scenario.iterations);
  for (const Duration iteration : widest.iterations) {
    EXPECT_GE(iteration, milliseconds(5));  // Half of the median.
  }
}

// 10^9 ms, 1000 times as long, would not fit into an Instant.
TEST(UnequalRun, LongestComputationEndsAtTheLimit) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.model.backward = seconds(1'000'000);
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.factor = 1000;
  scenario.limit = seconds(1);
  const auto result = run_scenario(scenario);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().text.find("is not done after 1.000 s"), std::string::npos)
      << result.error().text;
}

// 20 iterations with 2 x 2^20 bytes each: 336 Mbit, 16.8 s at 20 Mbit/s. At the links' rate the
// limit would be 20 x (25 x 10 + 17) ms, four deadlines of 1 s and 0.6 s for a pause: 9.9 s.
TEST(UnequalRun, SlowNicMovesTheLimit) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.host.deadline = seconds(1);
  scenario.host.nic_bits_per_s = 20'000'000;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.iterations.size(), scenario.iterations);
  EXPECT_GT(result.total, milliseconds(16'777));
}

TEST(UnequalRun, BackgroundFlowRunsAtBothEndsOfItsRange) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.iterations = 2;
  scenario.straggler.pattern = Straggling::kBackgroundFlow;
  for (const double share : {0.001, 1.0}) {
    scenario.straggler.background_share = share;
    EXPECT_EQ(run_well(scenario).iterations.size(), 2U) << share;
  }
}

TEST(UnequalRun, BackgroundFlowTakesItsShareOfACableOfAFile) {
  const testing::ScratchDirectory scratch;
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.topology = Topology::kFile;
  scenario.topology_file =
      scratch.file("t.toml",
                   "[topology]\nshape = \"star\"\nworkers = 4\nleaf_kind = \"aggregator\"\n"
                   "[link]\nrate_gbps = 10\n");
  // The flow has 5 Gbit/s: two thirds of the queue's output are results.
  EXPECT_NEAR(testing::slowdown_by_background(scenario), 1.5, 0.05);
}

TEST(UnequalRun, TraceDelaysTheWaitingWorkers) {
  const testing::ScratchDirectory scratch;
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kTrace;
  scenario.straggler.trace =
      scratch.file("t.csv", "worker,iteration,point,delay_ms\n1,0,0,30\n2,0,1,20\n0,3,2,15\n");
  const RunResult result = run_well(scenario);
  // Two sleep in the first iteration, and the longer sleep counts.
  EXPECT_NEAR(in_seconds(result.iterations[0] - without.iterations[0]), 0.030, 20e-6);
  EXPECT_NEAR(in_seconds(result.iterations[1] - without.iterations[1]), 0, 20e-6);
  EXPECT_NEAR(in_seconds(result.iterations[3] - without.iterations[3]), 0.015, 20e-6);
  EXPECT_EQ(run_well(scenario).digest, result.digest);

  scenario.straggler.trace += ".gone";
  EXPECT_NE(run_scenario(scenario).error().text.find("t.csv.gone: cannot be read"),
            std::string::npos);
}

TEST(UnequalRun, SlowUplinkSetsThePaceOfItsRackAndTheOthersWait) {
  Scenario scenario = four_workers(Backend::kTrioMlWait);
  scenario.topology = Topology::kTwoLevel;
  scenario.model.forward = Duration();
  scenario.model.backward = Duration();
  scenario.model.bucket_bytes = {4096 * 1024};
  scenario.window = 1024;
  scenario.iterations = 2;
  scenario.slow_uplinks = {.racks = {1}, .rate_bits_per_s = 20'000'000'000};
  const RunResult result = run_well(scenario);
  // A leaf sends one sum of each block up, with the mask of its ranks: (4096 + 64 + 66) x 8 / 20 =
  // 1690.4 ns.
  const double least_s = in_seconds(picoseconds(1'690'400)) * 1024;
  EXPECT_GE(in_seconds(result.mean_iteration), least_s);
  EXPECT_LE(in_seconds(result.mean_iteration), least_s * 1.6);

  scenario.slow_uplinks.racks = {2};
  EXPECT_EQ(run_scenario(scenario).error().text,
            "fabric.slow_racks=2 is not allowed; allowed: 0 to 1");
  scenario.slow_uplinks = {.racks = {0}, .rate_bits_per_s = 500'000'000'000};
  EXPECT_EQ(run_scenario(scenario).error().text,
            "fabric.slow_rate_gbps=500 is not allowed; allowed: up to fabric.rate_gbps=400");
  scenario.topology = Topology::kStar;
  EXPECT_NE(run_scenario(scenario).error().text.find("fabric.slow_racks=0 is not allowed"),
            std::string::npos);
}

TEST(UnequalRun, SlowLinkSetsThePace) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.model.forward = Duration();
  scenario.model.backward = Duration();
  scenario.model.bucket_bytes = {4096 * 4096};
  scenario.window = 1024;
  scenario.iterations = 2;
  const RunResult without = run_well(scenario);
  scenario.slow_links = {.workers = {2}, .rate_bits_per_s = scenario.link.rate_bits_per_s / 4};
  const RunResult result = run_well(scenario);
  const double ratio = in_seconds(result.mean_iteration) / in_seconds(without.mean_iteration);
  EXPECT_NEAR(ratio, 4, 0.1);
}

/// One tensor of 16 MiB without computation.
Scenario one_tensor(Backend backend) {
  Scenario scenario = four_workers(backend);
  scenario.model.forward = scenario.model.backward = Duration();
  scenario.model.bucket_bytes = {4096 * 4096};
  scenario.window = 1024;
  scenario.iterations = 1;
  return scenario;
}

TEST(UnequalRun, ServersOnHostsOfTheirOwnHaveNoSlowCable) {
  Scenario scenario = one_tensor(Backend::kPsDedicated);
  scenario.slow_links = {.workers = {1}, .rate_bits_per_s = 25'000'000'000};
  // Only the worker's own cable is slow: 4096 packets of (4096 + 32 + 66) x 8 / 25 = 1342.08 ns.
  const double least_s = in_seconds(picoseconds(1'342'080)) * 4096;
  const double took_s = in_seconds(run_well(scenario).mean_iteration);
  EXPECT_GE(took_s, least_s);
  EXPECT_LE(took_s, least_s * 1.02);
}

TEST(UnequalRun, SpareMachinesDoNotCareWhoseCableIsSlow) {
  const auto took_s = [](uint32_t rank) {
    Scenario scenario = one_tensor(Backend::kSharded);
    scenario.aggregators.spare = 2;
    scenario.slow_links = {.workers = {rank}, .rate_bits_per_s = 25'000'000'000};
    return in_seconds(run_well(scenario).mean_iteration);
  };
  // Spare machine 0 is cabled like rank 0; no spare machine is cabled like rank 3.
  const double last_s = took_s(3);
  EXPECT_NEAR(took_s(0), last_s, 0.02 * last_s);
}

TEST(UnequalRun, LossBurstsLoseTheSameShare) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.model.bucket_bytes = {4096 * 4096};
  scenario.host.retransmission = true;
  scenario.link.faults.loss = 0.01;
  const auto lost_share = [](const RunResult& result) {
    uint64_t lost = 0;
    uint64_t packets = 0;
    for (const LinkResult& link : result.links) {
      lost += link.lost;
      packets += link.packets;
    }
    return static_cast<double>(lost) / static_cast<double>(packets);
  };
  const RunResult alone = run_well(scenario);
  EXPECT_NEAR(lost_share(alone), 0.01, 0.002);
  scenario.link.faults.loss_run = 8;
  const RunResult bursts = run_well(scenario);
  EXPECT_NEAR(lost_share(bursts), 0.01, 0.004);
  EXPECT_NE(alone.digest, bursts.digest);
}

}  // namespace
}  // namespace tributary::lab
