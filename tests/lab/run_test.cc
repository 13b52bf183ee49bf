// SPDX-License-Identifier: Apache-2.0
// Method: iteration times worked by hand on a switch without limits of computation. Then the
// guarantees of every back end: exact sums over any links, and the same run from the same seed.
#include "lab/run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "lab/backends/backend.h"
#include "lab/backends/waiting_switch.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_well;
using ::testing::StartsWith;

/// 1024 gradients and 32 bytes of head, with 66 bytes of Ethernet, IP and UDP around them, at 100
/// Gbit/s: (4096 + 32 + 66) x 8 / 100 = 335.52 ns.
constexpr Duration kPacketTime = picoseconds(335'520);
/// The time from a host to the switch, or back.
const Duration kPropagation = kWorkerLink.propagation;
/// The time from a host through the switch and back.
const Duration kRoundTrip = (kPacketTime + kPropagation) * 2 + WaitingSwitch::kPipelineLatency;

/// A small scenario with 3 ms of computation in each iteration.
Scenario small(Backend backend, uint32_t workers = 2) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.iterations = 4;
  scenario.window = 64;
  scenario.mitigation.history = 8;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {4096},
                    .forward = milliseconds(1),
                    .backward = milliseconds(2)};
  return scenario;
}

// --- Times by hand -------------------------------------------------------------------------------

TEST(Run, OnePacketCostsOneRoundTrip) {
  const RunResult result = run_well(small(Backend::kIdeal));
  ASSERT_EQ(result.iterations.size(), 4U);
  for (const Duration iteration : result.iterations) {
    EXPECT_EQ(iteration, milliseconds(3) + kRoundTrip);
  }
  EXPECT_EQ(result.mean_iteration, milliseconds(3) + kRoundTrip);
  EXPECT_EQ(result.total, (milliseconds(3) + kRoundTrip) * 4);
  EXPECT_EQ(result.workers[0].computed, milliseconds(12));
  EXPECT_EQ(result.workers[0].waited, kRoundTrip * 4);
  EXPECT_EQ(result.blocks, 8U);
  EXPECT_EQ(result.degraded_blocks, 0U);
  EXPECT_EQ(result.block_latency.max, kRoundTrip);
}

TEST(Run, CommunicationOverlapsTheBackwardPass) {
  Scenario scenario = small(Backend::kIdeal);
  // The first bucket is ready half-way, 1 ms before the end; its 100 packets take 34 us.
  scenario.model.bucket_bytes = {409'600, 4096};
  const RunResult result = run_well(scenario);
  for (const Duration iteration : result.iterations) {
    EXPECT_EQ(iteration, milliseconds(3) + kRoundTrip);
  }
}

TEST(Run, LastBucketWaitsForThePreviousOne) {
  Scenario scenario = small(Backend::kIdeal);
  scenario.window = 1024;
  scenario.model.bucket_bytes = {409'600, 4096};
  scenario.model.backward = microseconds(20);
  const RunResult result = run_well(scenario);
  // The second bucket is ready 10 us after the first, which takes 100 packets. Its packet is
  // therefore the 101st in a row. A busy host receives the last result a little later, at most by
  // one round of a few packets in and out.
  const Duration expected = milliseconds(1) + microseconds(10) + kPacketTime * 100 + kRoundTrip;
  for (const Duration iteration : result.iterations) {
    EXPECT_GE(iteration, expected);
    EXPECT_LT(iteration, expected + microseconds(1));
  }
}

TEST(Run, WindowLimitsTheRate) {
  Scenario scenario = small(Backend::kIdeal);
  scenario.window = 1;
  scenario.model.bucket_bytes = {4096 * 50};
  const RunResult result = run_well(scenario);
  // Fifty round trips in a row. The host must receive each result before it sends the next packet.
  const Duration expected = milliseconds(3) + kRoundTrip * 50;
  for (const Duration iteration : result.iterations) {
    EXPECT_GE(iteration, expected);
    EXPECT_LT(iteration, expected + nanoseconds(100) * 2 * 50);
  }
}

TEST(Run, SlowNicDelaysOnlyItsWorker) {
  Scenario scenario = small(Backend::kIdeal);
  scenario.model.bucket_bytes = {4096 * 64};
  scenario.host.nic_bits_per_s = 10'000'000'000;
  const RunResult result = run_well(scenario);
  // 64 packets at a tenth of the rate; results come at the switch's rate.
  const Duration expected = milliseconds(3) + kPacketTime * 10 * 64 + kPropagation * 2 +
                            WaitingSwitch::kPipelineLatency + kPacketTime;
  EXPECT_GE(result.iterations[1], expected);
  EXPECT_LT(result.iterations[1], expected + microseconds(1));
}

TEST(Run, HostCostLimitsTheRate) {
  Scenario scenario = small(Backend::kIdeal);
  scenario.window = 1024;
  scenario.model.bucket_bytes = {4096 * 640};
  scenario.host.packet_cost = nanoseconds(250);
  scenario.host.gradients_cost = nanoseconds(750);
  const RunResult result = run_well(scenario);
  // 640 packets out and 640 results in, one microsecond each, at one host.
  EXPECT_GT(result.iterations[1], milliseconds(3) + microseconds(1280) - microseconds(64));
  EXPECT_LT(result.iterations[1], milliseconds(3) + microseconds(1280) + microseconds(64));
}

TEST(Run, TrioAddsItsLatency) {
  const RunResult ideal = run_well(small(Backend::kIdeal));
  const RunResult trio = run_well(small(Backend::kTrioMlWait));
  ASSERT_EQ(trio.aggregators.size(), 1U);
  const AggregatorResult& pfe = trio.aggregators[0];
  EXPECT_GT(pfe.latency.count, 0U);
  EXPECT_FALSE(pfe.bottleneck.empty());
  // The last contribution's time in the PFE replaces the switch's latency.
  const Duration more = trio.mean_iteration - ideal.mean_iteration;
  EXPECT_GT(more, pfe.latency.min / 2);
  EXPECT_LT(more, pfe.latency.max + microseconds(1));
}

TEST(Run, TimelineCountsALinksPackets) {
  Scenario scenario = small(Backend::kIdeal);
  scenario.iterations = 2;
  scenario.model.bucket_bytes = {4096 * 50};
  scenario.timeline = {.link = "worker-0.0>switch.0", .bin = milliseconds(1)};
  const RunResult result = run_well(scenario);
  // Each of the two iterations sends fifty packets after 3 ms of computation.
  EXPECT_EQ(result.timeline, (std::vector<uint64_t>{0, 0, 0, 50, 0, 0, 50}));
  scenario.timeline.link = "worker-0.0>switch.9";
  EXPECT_EQ(run_scenario(scenario).error().text.find("timeline.link: "), 0U);
  scenario.timeline = {.link = "worker-0.0>switch.0", .bin = Duration()};
  EXPECT_EQ(run_scenario(scenario).error().text,
            "timeline.bin_ms=0 is not allowed; allowed: a number from 0.001 to 1000000000");
}

/// Runs the scenario of experiments/loss_repair.toml with 2 MB and loss probability `loss` in each
/// direction.
RunResult run_with_loss(double loss) {
  Scenario scenario = small(Backend::kLive, 4);
  scenario.payload = Payload::kReal;
  scenario.iterations = 2;
  scenario.gradients = 352;
  scenario.window = 512;
  scenario.model.bucket_bytes = {2'000'000};
  scenario.link.rate_bits_per_s = 1'000'000'000;
  scenario.link.propagation = microseconds(20);
  scenario.link.faults.loss = loss;
  scenario.host.retransmission = true;
  scenario.mitigation.timeout = seconds(8);
  return run_well(scenario);
}

TEST(Run, OneLossInAHundredCostsLessThanAFifth) {
  const RunResult lossless = run_with_loss(0);
  const RunResult lossy = run_with_loss(0.01);
  EXPECT_EQ(lossy.wrong_sums, 0U);
  EXPECT_LT(lossy.mean_iteration, lossless.mean_iteration * 6 / 5);
  // In a hundred blocks, four packets are lost on their way up, and all four workers probe for
  // these. One result for each worker is lost on its way down. So each worker sends five probes in
  // a hundred blocks, and repeats some.
  uint64_t probes = 0;
  for (const WorkerResult& worker : lossy.workers) probes += worker.probes;
  EXPECT_GT(probes, lossy.blocks * 3 / 100);
  EXPECT_LT(probes, lossy.blocks * 8 / 100);
}

// --- Every back end ------------------------------------------------------------------------------

class EveryBackend : public ::testing::TestWithParam<Backend> {
 protected:
  static Scenario real(uint32_t workers) {
    Scenario scenario = small(GetParam(), workers);
    scenario.payload = Payload::kReal;
    scenario.model.bucket_bytes = {70'000, 12'345, 4};
    scenario.model.backward = microseconds(50);
    scenario.gradients = 256;
    return scenario;
  }
  /// SwitchML refuses links that reorder packets.
  static bool needs_order() { return backend_kind(GetParam()).switchml != nullptr; }
};

TEST_P(EveryBackend, SumsAreExact) {
  const RunResult result = run_well(real(5));
  // (17,500 + 3,087 + 1) elements, 4 iterations, 5 workers.
  EXPECT_EQ(result.checked_sums, 20'588U * 4 * 5);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.degraded_blocks, 0U);
  for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.iterations, 4U);
}

TEST_P(EveryBackend, SumsAreExactOverBadLinks) {
  Scenario scenario = real(3);
  scenario.host.retransmission = true;
  scenario.link.faults = {.loss = 0.03,
                          .corrupt = 0.01,
                          .duplicate = 0.03,
                          .reorder = 0.05,
                          .jitter = microseconds(5),
                          .reorder_max = microseconds(100)};
  if (needs_order()) scenario.link.faults.reorder = 0;
  const RunResult result = run_well(scenario);
  EXPECT_GT(result.checked_sums, 0U);
  EXPECT_EQ(result.wrong_sums, 0U);
  uint64_t repeated = 0;
  for (const WorkerResult& worker : result.workers) {
    EXPECT_EQ(worker.iterations, 4U);
    repeated += worker.retransmissions;
  }
  EXPECT_GT(repeated, 0U);
}

TEST_P(EveryBackend, SumsAreExactBelowLeavesAndSpines) {
  Scenario scenario = real(4);
  scenario.topology = Topology::kLeafSpine;
  if (backend_kind(GetParam()).own_ports) {
    EXPECT_FALSE(run_scenario(scenario).has_value());
    return;
  }
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.checked_sums, 20'588U * 4 * 4);
  EXPECT_EQ(result.wrong_sums, 0U);
}

TEST_P(EveryBackend, SameSeedGivesTheSameRun) {
  Scenario scenario = real(3);
  scenario.host.retransmission = true;
  scenario.link.faults.loss = 0.02;
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = 0.2;
  const RunResult one = run_well(scenario);
  const RunResult same = run_well(scenario);
  EXPECT_EQ(one.digest, same.digest);
  EXPECT_EQ(one.events, same.events);
  EXPECT_EQ(one.total, same.total);
  EXPECT_EQ(one.iterations, same.iterations);
  scenario.seed = 2;
  EXPECT_NE(run_well(scenario).digest, one.digest);
}

INSTANTIATE_TEST_SUITE_P(Backends, EveryBackend, ::testing::ValuesIn([] {
                           std::vector<Backend> all;
                           for (const BackendKind& kind : backend_kinds()) {
                             if (!kind.asynchronous) all.push_back(kind.id);
                           }
                           return all;
                         }()),
                         [](const auto& parameter) {
                           std::string name = name_of(parameter.param);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(Run, TreesGiveTheSameSums) {
  for (const Topology topology : {Topology::kChassis, Topology::kTwoLevel}) {
    for (Backend backend : {Backend::kTrioMl, Backend::kTrioMlWait, Backend::kLive}) {
      Scenario scenario = small(backend, 6);
      scenario.payload = Payload::kReal;
      scenario.topology = topology;
      scenario.model.bucket_bytes = {100'000};
      const RunResult result = run_well(scenario);
      EXPECT_EQ(result.checked_sums, 25'000U * 4 * 6);
      EXPECT_EQ(result.wrong_sums, 0U) << name_of(backend);
      EXPECT_EQ(result.degraded_blocks, 0U) << name_of(backend);
      EXPECT_EQ(result.aggregators.size(), 3U);
    }
  }
}

TEST(Run, ElidedPayloadChangesNoTime) {
  Scenario scenario = small(Backend::kTrioMl, 3);
  scenario.model.bucket_bytes = {300'000, 50'000};
  const RunResult elided = run_well(scenario);
  scenario.payload = Payload::kReal;
  const RunResult real = run_well(scenario);
  EXPECT_EQ(elided.iterations, real.iterations);
  EXPECT_EQ(elided.events, real.events);
}

// --- Trains --------------------------------------------------------------------------------------

TEST(Run, TrainsChangeLittle) {
  for (Backend backend : {Backend::kIdeal, Backend::kTrioMl}) {
    Scenario scenario = small(backend, 4);
    scenario.window = 512;
    scenario.model.bucket_bytes = {8 << 20, 1 << 20};
    scenario.iterations = 2;
    scenario.model.backward = milliseconds(1);
    const double one = in_seconds(run_well(scenario).mean_iteration);
    for (const uint32_t train : {4U, 32U}) {
      scenario.train = train;
      const RunResult result = run_well(scenario);
      // The last train of a bucket arrives as a whole, and buckets are rounded up to whole ones.
      EXPECT_NEAR(in_seconds(result.mean_iteration), one, 0.05 * one)
          << name_of(backend) << " " << train;
      EXPECT_NEAR(static_cast<double>(result.blocks), 2304.0 * 2 * 4, 2304.0 * 2 * 4 * 0.05);
    }
  }
}

/// Eight workers whose windows together are four times the PFE's packet buffer.
Scenario overflowing(uint32_t train) {
  Scenario scenario = small(Backend::kTrioMl, 8);
  scenario.window = 512;
  scenario.train = train;
  scenario.pfe.overrides = {{"packet_buffer_packets", 1024}};
  scenario.model.bucket_bytes = {2 << 20};
  scenario.iterations = 1;
  return scenario;
}

/// Returns the packets that a failed run's error says a PFE dropped; 0 if it says nothing of it.
uint64_t dropped(const Error& error) {
  std::smatch match;
  const std::regex pattern("dropped ([0-9]+) packets: packet buffer full");
  return std::regex_search(error.text, match, pattern) ? std::stoull(match[1]) : 0;
}

TEST(Run, TrainsFillThePacketBufferLikePackets) {
  const auto one = run_scenario(overflowing(1));
  ASSERT_FALSE(one);
  const auto expected = static_cast<double>(dropped(one.error()));
  ASSERT_GT(expected, 1000.0);
  for (const uint32_t train : {2U, 8U, 64U}) {
    const auto result = run_scenario(overflowing(train));
    ASSERT_FALSE(result);
    EXPECT_NEAR(static_cast<double>(dropped(result.error())), expected, 0.05 * expected) << train;
  }
}

TEST(Run, TrainsThatWouldRepairAFullBufferAreRefused) {
  Scenario scenario = overflowing(1);
  scenario.host.retransmission = true;
  EXPECT_TRUE(run_scenario(scenario));
  for (const uint32_t train : {2U, 8U, 64U}) {
    scenario.train = train;
    EXPECT_THAT(run_scenario(scenario).error().text, HasSubstr("set train=1"));
  }
}

TEST(Run, LinksCountThePacketsOfATrain) {
  for (const uint32_t train : {1U, 2U, 8U}) {
    Scenario scenario = small(Backend::kIdeal);
    scenario.model.bucket_bytes = {1 << 20};
    scenario.iterations = 1;
    scenario.train = train;
    const RunResult result = run_well(scenario);
    for (const LinkResult& link : result.links) {
      // 256 blocks of 4096 bytes, and a few messages to join.
      EXPECT_GE(link.packets, 256U) << train << " " << link.name;
      EXPECT_LE(link.packets, 256U + 4 * train) << train << " " << link.name;
    }
    EXPECT_THAT(result.warnings, ::testing::IsEmpty());
  }
}

/// Six workers in two racks. The uplinks have room for 125 packets of a window of 512.
Scenario overflowing_uplinks(Backend backend, uint32_t train) {
  Scenario scenario = small(backend, 6);
  scenario.topology = Topology::kTwoLevel;
  scenario.fabric.rate_bits_per_s = 20'000'000'000;
  scenario.fabric.queue_bytes_max = 512 << 10;
  scenario.window = 512;
  scenario.train = train;
  scenario.model.bucket_bytes = {4 << 20};
  scenario.iterations = 1;
  return scenario;
}

TEST(Run, TrainsOverflowLinksLikePackets) {
  const auto lost = [](uint32_t train) {
    const auto result = run_scenario(overflowing_uplinks(Backend::kTrioMl, train));
    const std::string text = result ? "" : result.error().text;
    std::smatch match;
    const std::regex pattern("link leaf-0.3>top.0 lost ([0-9]+) packets");
    return std::regex_search(text, match, pattern) ? std::stod(match[1]) : 0;
  };
  const double expected = lost(1);
  ASSERT_GT(expected, 200);
  for (const uint32_t train : {2U, 8U}) EXPECT_NEAR(lost(train), expected, 0.2 * expected) << train;
}

// The top completes blocks without the rack behind the slow uplink, so the run ends.
TEST(Run, TrainsThatOverflowALinkTakeTheTimeOfPackets) {
  const auto run = [](uint32_t train) {
    Scenario scenario = overflowing_uplinks(Backend::kTrioMl, train);
    scenario.fabric.rate_bits_per_s = 100'000'000'000;
    scenario.slow_uplinks = {.racks = {1}, .rate_bits_per_s = 10'000'000'000};
    return run_well(scenario);
  };
  const auto lost = [](const RunResult& result) {
    uint64_t count = 0;
    for (const LinkResult& link : result.links) count += link.lost;
    return static_cast<double>(count);
  };
  const RunResult one = run(1);
  ASSERT_GT(lost(one), 200);
  EXPECT_THAT(one.warnings, ::testing::IsEmpty());
  const double seconds = in_seconds(one.mean_iteration);
  for (const uint32_t train : {2U, 8U}) {
    const RunResult result = run(train);
    EXPECT_NEAR(lost(result), lost(one), 0.2 * lost(one)) << train;
    EXPECT_NEAR(in_seconds(result.mean_iteration), seconds, 0.1 * seconds) << train;
    EXPECT_NEAR(result.degraded_fraction(), one.degraded_fraction(), 0.05) << train;
    EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("link leaf-1.3>top.1 lost")));
  }
}

TEST(Run, WarnsOfTrainsThatWorkersRepair) {
  for (const uint32_t train : {1U, 2U, 8U}) {
    Scenario scenario = overflowing_uplinks(Backend::kTrioMlWait, train);
    scenario.host.retransmission = true;
    const RunResult result = run_well(scenario);
    if (train == 1) {
      EXPECT_THAT(result.warnings, ::testing::IsEmpty());
      continue;
    }
    EXPECT_THAT(result.warnings, ElementsAre(AllOf(HasSubstr("link leaf-0.3>top.0 lost"),
                                                   HasSubstr("link leaf-1.3>top.1 lost"),
                                                   HasSubstr("set train=1"))));
  }
}

TEST(Run, WarnsOfTrainsThatOverflowHosts) {
  for (const uint32_t train : {1U, 2U, 8U}) {
    Scenario scenario = small(Backend::kWaitingSwitch, 12);
    scenario.window = 1024;
    scenario.train = train;
    scenario.model.bucket_bytes = {4 << 20};
    scenario.iterations = 1;
    scenario.host = {.packet_cost = nanoseconds(500), .receive_buffer_bytes = 65'536};
    scenario.host.retransmission = true;
    const RunResult result = run_well(scenario);
    const uint64_t overflows = result.workers[0].receive_overflows;
    EXPECT_GT(overflows, 100U);
    if (train == 1) {
      EXPECT_THAT(result.warnings, ::testing::IsEmpty());
      continue;
    }
    const std::string first =
        fmt::format("worker 0 dropped {} packets: receive buffer full; ", overflows);
    // Eight of the twelve are named.
    EXPECT_THAT(result.warnings, ElementsAre(AllOf(StartsWith(first), HasSubstr("worker 7 dropped"),
                                                   HasSubstr("; 4 more places lost packets"))));
  }
}

TEST(Run, WarnsOfTrainsThatOverflowAServer) {
  Scenario scenario = small(Backend::kSharded, 4);
  scenario.aggregators = {.colocated = false, .spare = 1};
  scenario.window = 512;
  scenario.model.bucket_bytes = {4 << 20};
  scenario.iterations = 1;
  scenario.host = {.packet_cost = nanoseconds(500), .receive_buffer_bytes = 65'536};
  scenario.host.retransmission = true;
  EXPECT_THAT(run_well(scenario).warnings, ::testing::IsEmpty());
  scenario.train = 4;
  EXPECT_THAT(run_well(scenario).warnings,
              ElementsAre(ContainsRegex("server-0 dropped [0-9]+ packets: receive buffer full")));
}

TEST(Run, FailureNamesTheFullBuffer) {
  const auto result = run_scenario(overflowing(1));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text, ContainsRegex("dropped [0-9]+ packets: packet buffer full"));
}

TEST(Run, TrainLongerThanThePacketBufferIsRefused) {
  Scenario scenario = overflowing(64);
  scenario.pfe.overrides = {{"packet_buffer_packets", 32}};
  EXPECT_THAT(run_scenario(scenario).error().text, HasSubstr("train=64"));
}

}  // namespace
}  // namespace tributary::lab
