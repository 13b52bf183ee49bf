// SPDX-License-Identifier: Apache-2.0
// Method: times and passes worked by hand, then refusals. Trains and elided payload must change
// nothing. Last, worker and pipeline together must sum exactly over links that lose and duplicate
// packets, like the other back ends.
#include "lab/backends/tofino_node.h"

#include <gtest/gtest.h>

#include "lab/cluster/plan.h"
#include "tests/lab/part_of.h"
#include "tests/lab/run_bed.h"
#include "tests/support/seed.h"
#include "tofino/limits.h"

namespace tributary::lab {
namespace {

using testing::run_well;

/// 10 bytes of head, 66 of Ethernet, IP and UDP: at 100 Gbit/s (256 + 76) x 8 / 100 = 26.56 ns, and
/// (1024 + 76) x 8 / 100 = 88 ns.
constexpr Duration kSmallTime = picoseconds(26'560);
constexpr Duration kLargeTime = picoseconds(88'000);

Scenario small(Backend backend, uint32_t workers = 2) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.iterations = 2;
  scenario.mitigation.history = 8;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {256},
                    .forward = milliseconds(1),
                    .backward = milliseconds(2)};
  return scenario;
}

std::string refusal(const Scenario& scenario) {
  const auto result = run_scenario(scenario);
  return result ? std::string() : result.error().text;
}

// --- By hand -------------------------------------------------------------------------------------

TEST(TofinoNode, OnePacketOf64TakesTwoPasses) {
  const RunResult result = run_well(small(Backend::kSwitchml64));
  // The completing packet: one consume, through an inner loop (frame of 308 bytes and 24 around it
  // at 100 Gbit/s: 26.56 ns), one harvest.
  const Duration inside = tofino::kPassLatency * 2;
  ASSERT_EQ(result.aggregators.size(), 1U);
  const AggregatorResult& aggregator = result.aggregators[0];
  EXPECT_GE(aggregator.latency.mean, inside);
  EXPECT_LT(aggregator.latency.mean, inside + nanoseconds(50));
  const Duration way = (kSmallTime + kWorkerLink.propagation) * 2;
  EXPECT_GE(result.block_latency.max, way + inside);
  EXPECT_LT(result.block_latency.max, way + inside + nanoseconds(50));
  EXPECT_EQ(aggregator.packets, 4U);
  EXPECT_EQ(aggregator.dropped, 0U);
  EXPECT_EQ(part_of(aggregator, "passes per packet"), 1.5);
  EXPECT_EQ(part_of(aggregator, "stages"), 12);
  EXPECT_EQ(part_of(aggregator, "stateful ALUs"), 35);
}

TEST(TofinoNode, OnePacketOf256TakesElevenPasses) {
  const RunResult result = run_well(small(Backend::kSwitchml256));
  const AggregatorResult& aggregator = result.aggregators.at(0);
  EXPECT_EQ(part_of(aggregator, "passes per packet"), (4 + 11) / 2.0);
  const Duration inside = tofino::kPassLatency * 11;
  EXPECT_GE(aggregator.latency.mean, inside);
  EXPECT_LT(aggregator.latency.mean, inside + kLargeTime * 10);
}

TEST(TofinoNode, PoolLimitsTheRate) {
  Scenario scenario = small(Backend::kSwitchml256);
  scenario.switchml.pool = 1;
  scenario.model.bucket_bytes = {1024 * 50};
  const RunResult one = run_well(scenario);
  // One packet at a time takes 50 round trips. A pool of 64 takes one, and the work of 49 packets.
  const Duration trip = one.block_latency.p50;
  EXPECT_GE(one.workers[0].waited, trip * 49 * 2);
  scenario.switchml.pool = 64;
  const RunResult many = run_well(scenario);
  EXPECT_LT(many.workers[0].waited, trip * 4 * 2);
}

// --- Refusals ------------------------------------------------------------------------------------

TEST(TofinoNode, RefusesSettingsBeyondTheChip) {
  EXPECT_EQ(refusal(small(Backend::kSwitchml256, 17)),
            "workers=17 is not allowed; allowed with backend=switchml-256: 1 to 16, the ports of a "
            "pipe at this rate and the bits of SwitchML's bitmap");
  EXPECT_NE(refusal(small(Backend::kSwitchml64, 17)).find("1 to 16"), std::string::npos);
  Scenario slow = small(Backend::kSwitchml64, 33);
  slow.link.rate_bits_per_s = 25'000'000'000;
  EXPECT_NE(refusal(slow).find("workers=33 is not allowed"), std::string::npos);
  slow.workers = 32;  // Each channel has a quarter of a port.
  slow.iterations = 1;
  EXPECT_EQ(refusal(slow), "");
  Scenario fast = small(Backend::kSwitchml64);
  fast.link.rate_bits_per_s = 400'000'000'000;
  EXPECT_NE(refusal(fast).find("link.rate_gbps=400 is not allowed"), std::string::npos);
}

TEST(TofinoNode, RefusesSettingsBeyondSwitchml) {
  Scenario disordered = small(Backend::kSwitchml64);
  disordered.link.faults.reorder = 0.01;
  EXPECT_NE(refusal(disordered).find("keep their order"), std::string::npos);
  Scenario behind = small(Backend::kSwitchml64, 4);
  behind.topology = Topology::kLeafSpine;
  EXPECT_NE(refusal(behind).find("port of its own"), std::string::npos);
  Scenario wide = small(Backend::kSwitchml64);
  wide.switchml.pool = 8193;
  EXPECT_NE(refusal(wide).find("switchml.pool=8193 is not allowed"), std::string::npos);
  Scenario uneven = small(Backend::kSwitchml256);
  uneven.switchml.pool = 512;
  uneven.train = 1024;
  EXPECT_NE(refusal(uneven).find("train=1024 is not allowed"), std::string::npos);
  Scenario lossy = small(Backend::kSwitchml64);
  lossy.link.faults.loss = 0.01;
  EXPECT_NE(refusal(lossy).find("host.retransmission=false"), std::string::npos);
}

// --- Equal runs ----------------------------------------------------------------------------------

TEST(TofinoNode, ElidedPayloadChangesNoTime) {
  for (Backend backend : {Backend::kSwitchml64, Backend::kSwitchml256}) {
    Scenario scenario = small(backend, 3);
    scenario.model.bucket_bytes = {300'000, 50'000};
    const RunResult elided = run_well(scenario);
    scenario.payload = Payload::kReal;
    const RunResult real = run_well(scenario);
    EXPECT_EQ(elided.iterations, real.iterations) << name_of(backend);
    EXPECT_EQ(elided.events, real.events) << name_of(backend);
    EXPECT_EQ(real.wrong_sums, 0U);
    EXPECT_GT(real.checked_sums, 0U);
  }
}

TEST(TofinoNode, TrainsChangeLittle) {
  for (Backend backend : {Backend::kSwitchml64, Backend::kSwitchml256}) {
    for (const bool straggles : {false, true}) {
      Scenario scenario = small(backend, 4);
      scenario.switchml.pool = 512;
      scenario.model.bucket_bytes = {1 << 20, 1 << 18};
      scenario.model.backward = microseconds(100);
      scenario.model.forward = microseconds(100);
      if (straggles) {
        scenario.straggler.pattern = Straggling::kSlowWorker;
        scenario.straggler.probability = 0.5;
        scenario.straggler.typical_iteration = milliseconds(1);
        scenario.host.retransmission = true;
      }
      const RunResult one = run_well(scenario);
      const double expected = in_seconds(one.mean_iteration);
      for (const uint32_t train : {4U, 32U}) {
        scenario.train = train;
        const RunResult result = run_well(scenario);
        EXPECT_NEAR(in_seconds(result.mean_iteration), expected, 0.02 * expected)
            << name_of(backend) << " " << train;
        EXPECT_NEAR(static_cast<double>(result.blocks), static_cast<double>(one.blocks),
                    0.05 * static_cast<double>(one.blocks));
        EXPECT_NEAR(static_cast<double>(result.workers[0].retransmissions),
                    static_cast<double>(one.workers[0].retransmissions),
                    0.1 * static_cast<double>(one.workers[0].retransmissions) + 64);
      }
    }
  }
}

// --- Worker and pipeline over bad links ----------------------------------------------------------

class BadLinks : public ::testing::TestWithParam<Backend> {};

TEST_P(BadLinks, SumsAreExactOverBadLinks) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t round = 0; round < 4; round++) {
    Scenario scenario = small(GetParam(), 1 + prng.below(6));
    scenario.seed = prng.any_u32();
    scenario.payload = Payload::kReal;
    scenario.switchml.pool = 1 + prng.below(40);
    scenario.switchml.timeout = microseconds(50 + prng.below(500));
    scenario.host.retransmission = true;
    scenario.model.backward = microseconds(50);
    scenario.model.bucket_bytes = {4ULL * (1 + prng.below(5000)), 4ULL * (1 + prng.below(20'000)),
                                   4};
    scenario.link.faults = {.loss = prng.below(100) * 0.001,
                            .corrupt = 0.001,
                            .duplicate = prng.below(100) * 0.001,
                            .jitter = microseconds(prng.below(10))};
    scenario.straggler.pattern = Straggling::kSlowWorker;
    scenario.straggler.probability = 0.3;
    scenario.straggler.typical_iteration = milliseconds(1);
    const RunResult result = run_well(scenario);
    EXPECT_GT(result.checked_sums, 0U);
    EXPECT_EQ(result.wrong_sums, 0U);
    for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.iterations, 2U);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, BadLinks,
                         ::testing::Values(Backend::kSwitchml64, Backend::kSwitchml256),
                         [](const auto& parameter) { return name_of(parameter.param).substr(9); });

}  // namespace
}  // namespace tributary::lab
