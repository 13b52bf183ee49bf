// SPDX-License-Identifier: Apache-2.0
// Method: two buckets by hand on a switch without limits of computation, with and without
// priorities. Then random small scenarios against the formulas of lab/workload/iteration_time.h,
// and exact sums on every back end.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "host/send_gate.h"
#include "lab/backends/waiting_switch.h"
#include "lab/workload/iteration_time.h"
#include "tests/lab/run_bed.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;

/// As in run_test.cc: 4096 + 32 + 66 bytes at 100 Gbit/s.
constexpr Duration kPacketTime = picoseconds(335'520);
const Duration kRoundTrip =
    (kPacketTime + kWorkerLink.propagation) * 2 + WaitingSwitch::kPipelineLatency;
/// The packets in a NIC's ring, which leave before a more urgent one.
const Duration kRing = kPacketTime * 64;
/// A busy host takes the last result a little later, by a round of a few packets in and out.
constexpr Duration kRound = microseconds(1);

/// A bucket of 1000 packets, ready after 100 us of the backward pass, and one of 1 packet, ready
/// after 200 us, at its end. Each has half of the forward pass.
Scenario two_buckets(Duration forward, bool overlaps, uint32_t priorities) {
  Scenario scenario;
  scenario.backend = Backend::kIdeal;
  scenario.workers = 2;
  scenario.iterations = 4;
  scenario.window = 1024;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {4'096'000, 4096},
                    .forward = forward,
                    .backward = microseconds(200),
                    .overlap_forward = overlaps};
  scenario.host.priorities = priorities;
  return scenario;
}

void expect_middle(const RunResult& result, Duration from, Duration to) {
  ASSERT_EQ(result.iterations.size(), 4U);
  for (const size_t i : {1, 2}) {
    EXPECT_GE(result.iterations[i], from);
    EXPECT_LE(result.iterations[i], to);
  }
}

TEST(SchedulingRun, ArrivalOrderWaitsForTheLastBucket) {
  // The small bucket's packet is the 1001st in a row: its sum comes at 100 us + 1001 packets + a
  // round trip = 439 us, and only then may the forward pass of 400 us begin.
  const Duration expected = microseconds(100) + kPacketTime * 1000 + kRoundTrip + microseconds(400);
  expect_middle(run_well(two_buckets(microseconds(400), false, 1)), expected, expected + kRound);
  expect_middle(run_well(two_buckets(microseconds(400), true, 1)), expected, expected + kRound);
}

TEST(SchedulingRun, UrgentBucketHidesItsForwardPass) {
  // By priority, the small bucket leaves at 200 us, so its layers are computed from 225 us to 425
  // us, while the large one is on its way. That one's sum comes at 439 us; 200 us remain.
  const Duration expected = microseconds(100) + kPacketTime * 1000 + kRoundTrip + microseconds(200);
  expect_middle(run_well(two_buckets(microseconds(400), true, 2)), expected, expected + kRound);
}

TEST(SchedulingRun, UrgentPacketWaitsForTheNicsRing) {
  // The forward pass of 1000 us is the longest part. It begins with the small bucket's sum, whose
  // packet leaves after 200 us behind the packets in the NIC's ring, and never waits after that.
  const Duration expected = microseconds(200) + kRoundTrip + microseconds(1000);
  expect_middle(run_well(two_buckets(microseconds(1000), true, 2)), expected + kRing / 2,
                expected + kRing + kPacketTime * 2 + kRound);
}

TEST(SchedulingRun, PrioritiesAloneDoNotChangeTheTime) {
  // All sums are needed before the forward pass, in any order.
  const Duration plain = run_well(two_buckets(microseconds(400), false, 1)).mean_iteration;
  const Duration urgent = run_well(two_buckets(microseconds(400), false, 2)).mean_iteration;
  EXPECT_NEAR(in_seconds(urgent), in_seconds(plain), in_seconds(kRound));
}

TEST(SchedulingRun, FirstIterationComputesTwoForwardPassesAndTheLastNone) {
  const RunResult waiting = run_well(two_buckets(microseconds(400), false, 1));
  const RunResult urgent = run_well(two_buckets(microseconds(400), true, 2));
  for (const RunResult* result : {&waiting, &urgent}) {
    EXPECT_EQ(result->workers[0].computed, microseconds(600) * 4);
    EXPECT_EQ(result->workers[0].iterations, 4U);
  }
  EXPECT_GT(urgent.iterations[0], urgent.iterations[1]);
  EXPECT_LT(urgent.iterations[3], urgent.iterations[1]);
  EXPECT_LT(urgent.total, waiting.total);
}

// --- Random scenarios ----------------------------------------------------------------------------

Scenario random_scenario(testing::Prng& prng) {
  Scenario scenario;
  scenario.backend = Backend::kIdeal;
  scenario.workers = 2 + prng.below(3);
  scenario.iterations = 4;
  scenario.window = 1024;
  scenario.model.kind = Model::kCustom;
  const uint32_t buckets = 1 + prng.below(6);
  for (uint32_t i = 0; i < buckets; i++) {
    scenario.model.bucket_bytes.push_back(4096 * (1 + prng.below(400)));
  }
  scenario.model.forward = microseconds(10 * (1 + prng.below(60)));
  scenario.model.backward = microseconds(10 * (1 + prng.below(60)));
  return scenario;
}

Duration middle_iteration(Scenario scenario, bool overlaps, uint32_t priorities) {
  scenario.model.overlap_forward = overlaps;
  scenario.host.priorities = priorities;
  const RunResult result = run_well(scenario);
  return result.iterations.size() == 4 ? (result.iterations[1] + result.iterations[2]) / 2
                                       : Duration();
}

TEST(SchedulingRun, RandomScenariosStayBetweenTheFormulas) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 12; step++) {
    SCOPED_TRACE(fmt::format("step {}", step));
    const Scenario scenario = random_scenario(prng);
    const Workload workload = workload_of(scenario);
    std::vector<Duration> transfers;
    for (const Bucket& bucket : workload.buckets) {
      transfers.push_back(kPacketTime * static_cast<int64_t>(bucket.elements / 1024));
    }
    const Duration waiting = waiting_iteration(workload, transfers);
    const Duration least = least_iteration(workload, transfers);
    const Duration arrival = middle_iteration(scenario, true, 1);
    const Duration urgent = middle_iteration(scenario, true, host::kPrioritiesMax);
    EXPECT_EQ(middle_iteration(scenario, false, 1), arrival);
    EXPECT_GE(arrival, waiting);
    EXPECT_LE(arrival, waiting + kRoundTrip + kRound);
    EXPECT_GE(urgent, least);
    // Never slower than arrival order, but for a round of the host. With a priority for each
    // bucket, each may wait for a ring of packets and a round trip.
    EXPECT_LE(urgent, arrival + kRound);
    if (transfers.size() > host::kPrioritiesMax) continue;
    EXPECT_LE(urgent,
              least + (kRing + kRoundTrip + kRound) * static_cast<int64_t>(transfers.size()));
  }
}

// --- Back ends -----------------------------------------------------------------------------------

class SchedulingBackend : public ::testing::TestWithParam<Backend> {};

TEST_P(SchedulingBackend, PrioritiesKeepSumsExactAndSaveTime) {
  Scenario scenario = two_buckets(microseconds(800), true, 1);
  scenario.backend = GetParam();
  scenario.payload = Payload::kReal;
  scenario.model.bucket_bytes = {2'000'000, 200'000, 40'000};
  scenario.model.backward = microseconds(60);  // Less than the first bucket takes.
  scenario.window = 256;
  scenario.mitigation.history = 4;
  const RunResult arrival = run_well(scenario);
  scenario.host.priorities = 3;
  const RunResult urgent = run_well(scenario);
  for (const RunResult* result : {&arrival, &urgent}) {
    EXPECT_EQ(result->wrong_sums, 0U);
    EXPECT_EQ(result->checked_sums, 560'000U * 2 * 4);
    EXPECT_EQ(result->degraded_blocks, 0U);
  }
  EXPECT_LT(urgent.total, arrival.total);
}

TEST_P(SchedulingBackend, PrioritiesSurviveLoss) {
  Scenario scenario = two_buckets(microseconds(100), true, 3);
  scenario.backend = GetParam();
  scenario.payload = Payload::kReal;
  scenario.model.bucket_bytes = {400'000, 40'000, 4'000};
  scenario.window = 64;
  scenario.mitigation.history = 4;
  scenario.link.faults.loss = 0.01;
  scenario.host.retransmission = true;
  scenario.mitigation.timeout = milliseconds(500);  // Repairs take longer than 10 ms.
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.checked_sums, 111'000U * 2 * 4);
}

INSTANTIATE_TEST_SUITE_P(All, SchedulingBackend,
                         ::testing::Values(Backend::kTrioMl, Backend::kTrioMlWait,
                                           Backend::kWaitingSwitch, Backend::kLive,
                                           Backend::kPsDedicated, Backend::kSharded,
                                           Backend::kShardedLive));

TEST(SchedulingRun, TreeOfAggregatorsServesEveryPriority) {
  Scenario scenario = two_buckets(microseconds(400), true, 2);
  scenario.backend = Backend::kTrioMl;
  scenario.topology = Topology::kChassis;
  scenario.workers = 4;
  scenario.payload = Payload::kReal;
  scenario.window = 256;
  scenario.mitigation.history = 4;
  scenario.model.bucket_bytes = {400'000, 40'000};
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.checked_sums, 110'000U * 4 * 4);
  EXPECT_EQ(result.degraded_blocks, 0U);
}

TEST(SchedulingRun, LateWorkerSkipsOnlyTheIterationsThatItMissed) {
  Scenario scenario = two_buckets(milliseconds(4), true, 2);
  scenario.backend = Backend::kTrioMl;
  scenario.workers = 3;
  scenario.iterations = 20;
  scenario.window = 256;
  scenario.model.bucket_bytes = {400'000, 40'000};
  scenario.model.backward = milliseconds(8);
  scenario.mitigation.timeout = milliseconds(2);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.pause_at = milliseconds(30);
  scenario.straggler.pause_for = milliseconds(50);
  const RunResult result = run_well(scenario);
  EXPECT_GT(result.degraded_blocks, 0U);
  const WorkerResult& late = result.workers[scenario.straggler.worker];
  EXPECT_EQ(late.iterations, 20U);
  EXPECT_GE(late.iterations_skipped, 1U);
  EXPECT_LE(late.iterations_skipped, 6U);  // 50 ms are about four iterations.
}

TEST(SchedulingRun, IdleStreamsStayAliveBesideALongOne) {
  // 20 MB take 1.6 s at 100 Mbit/s. The urgent streams are idle for longer than the second after
  // which they send a keep-alive, for which the NIC's ring has no room at first.
  Scenario scenario = two_buckets(microseconds(400), true, 4);
  scenario.model.bucket_bytes = {20'000'000, 4096};
  scenario.link.rate_bits_per_s = scenario.host.nic_bits_per_s = 100'000'000;
  scenario.train = 16;
  scenario.iterations = 2;
  const RunResult result = run_well(scenario);
  EXPECT_NEAR(in_seconds(result.mean_iteration), 1.6 * 1.024, 0.05);
}

TEST(SchedulingRun, TrainsChangeLittle) {
  for (const Backend backend : {Backend::kTrioMl, Backend::kSharded}) {
    Scenario scenario;
    scenario.backend = backend;
    scenario.model.kind = Model::kResnet50;
    scenario.model.overlap_forward = true;
    scenario.host.priorities = host::kPrioritiesMax;
    scenario.mitigation.history = 16;
    scenario.workers = 2;
    scenario.iterations = 3;
    scenario.link.rate_bits_per_s = scenario.host.nic_bits_per_s = 10'000'000'000;
    scenario.window = 1024;
    scenario.train = 8;
    const double fine = in_seconds(run_well(scenario).mean_iteration);
    scenario.train = 32;
    EXPECT_NEAR(in_seconds(run_well(scenario).mean_iteration), fine, 0.03 * fine);
  }
}

TEST(SchedulingRun, BackEndsWithoutSessionsAreRefused) {
  for (const Backend backend :
       {Backend::kSwitchml256, Backend::kSwitchmlOnTrio, Backend::kAsynchronous, Backend::kRing}) {
    Scenario scenario = two_buckets(microseconds(100), true, 2);
    scenario.backend = backend;
    scenario.payload = Payload::kReal;
    const auto checked = check(scenario);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().text,
                HasSubstr("host.priorities=2 is not allowed; allowed: 1, with "
                          "backend=" +
                          name_of(backend)));
  }
}

}  // namespace
}  // namespace tributary::lab
