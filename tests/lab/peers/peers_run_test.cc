// SPDX-License-Identifier: Apache-2.0
// Method: on a network without limits of computation, times must match the formulas (SwitchML paper
// §3, BytePS paper §2.2, §2.3 and §4.1.1) within headers and a few round trips, and so must the
// bytes that a host sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/backends/backend.h"
#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;

constexpr double kTensorBytes = 32 << 20;
/// 1024 gradients with at most 32 bytes of head and 66 around it: 2.4 % more than the gradients.
/// Other traffic (acknowledgements, joins) is below a hundredth.
constexpr double kOverhead = 1.035;

Scenario only_network(Backend backend, uint32_t workers) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.iterations = 2;
  scenario.model = {
      .kind = Model::kCustom, .bucket_bytes = {uint64_t{32} << 20}, .forward = {}, .backward = {}};
  scenario.host.packet_cost = nanoseconds(10);
  scenario.host.gradients_cost = Duration();
  return scenario;
}

class PeersTime : public ::testing::TestWithParam<std::pair<Backend, uint32_t>> {};

TEST_P(PeersTime, RunTimeMatchesTheFormula) {
  const auto [backend, workers] = GetParam();
  const Scenario scenario = only_network(backend, workers);
  const RunResult result = run_well(scenario);
  const double factor = least_traffic(scenario, backend_kind(backend));
  const double least_s = factor * kTensorBytes * 8 / 100e9;
  const double took_s = in_seconds(result.mean_iteration);
  EXPECT_GE(took_s, least_s);
  EXPECT_LE(took_s, least_s * kOverhead + 60e-6);  // Plus a window's start and end.
  for (const WorkerResult& worker : result.workers) {
    for (const uint64_t bytes : {worker.wire_bytes_sent, worker.wire_bytes_received}) {
      const double of_least = static_cast<double>(bytes) / (2 * factor * kTensorBytes);
      EXPECT_GE(of_least, 1.0);
      EXPECT_LE(of_least, kOverhead);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formulas, PeersTime,
    ::testing::Values(std::pair{Backend::kIdeal, 4U}, std::pair{Backend::kIdeal, 8U},
                      std::pair{Backend::kPsDedicated, 4U}, std::pair{Backend::kPsDedicated, 8U},
                      std::pair{Backend::kPsColocated, 4U}, std::pair{Backend::kPsColocated, 8U},
                      std::pair{Backend::kRing, 2U}, std::pair{Backend::kRing, 4U},
                      std::pair{Backend::kRing, 8U}));

TEST(PeersRun, LeastTrafficMatchesThePaper) {
  const auto least = [](Backend backend, uint32_t workers, AggregatorsSettings aggregators = {}) {
    Scenario scenario = only_network(backend, workers);
    scenario.aggregators = aggregators;
    return least_traffic(scenario, backend_kind(backend));
  };
  EXPECT_DOUBLE_EQ(least(Backend::kIdeal, 8), 1);
  EXPECT_DOUBLE_EQ(least(Backend::kPsDedicated, 8), 1);
  EXPECT_DOUBLE_EQ(least(Backend::kPsColocated, 8), 1.75);
  EXPECT_DOUBLE_EQ(least(Backend::kRing, 8), 1.75);
  EXPECT_DOUBLE_EQ(least(Backend::kRing, 1), 0);
  EXPECT_DOUBLE_EQ(least(Backend::kSharded, 8), 1.75);
  EXPECT_DOUBLE_EQ(least(Backend::kSharded, 8, {.colocated = true, .spare = 8}), 1);
  EXPECT_DOUBLE_EQ(least(Backend::kSharded, 4, {.colocated = true, .spare = 2}), 1.2);  // 24 / 20.
  EXPECT_DOUBLE_EQ(least(Backend::kSharded, 4, {.colocated = false, .spare = 2}), 1);
  EXPECT_DOUBLE_EQ(least(Backend::kSharded, 1), 0);
}

TEST(PeersRun, LossCostsTheRingLittle) {
  Scenario scenario = only_network(Backend::kRing, 4);
  const double calm_s = in_seconds(run_well(scenario).mean_iteration);
  scenario.link.faults.loss = 0.001;
  scenario.host.retransmission = true;
  const RunResult result = run_well(scenario);
  EXPECT_LT(in_seconds(result.mean_iteration), 1.5 * calm_s);
  uint64_t again = 0;
  for (const WorkerResult& worker : result.workers) again += worker.retransmissions;
  // Four workers, two iterations, 1.5 x 8192 packets over two links each: 197 lost on average.
  EXPECT_GT(again, 100U);
  EXPECT_LT(again, 400U);
}

TEST(PeersRun, TrainsChangeLittle) {
  for (Backend backend : {Backend::kPsDedicated, Backend::kPsColocated, Backend::kRing}) {
    Scenario scenario = only_network(backend, 4);
    const double one = in_seconds(run_well(scenario).mean_iteration);
    scenario.train = 32;
    EXPECT_NEAR(in_seconds(run_well(scenario).mean_iteration), one, 0.06 * one) << name_of(backend);
  }
}

TEST(PeersRun, RingResendsOnlyIfTheScenarioSaysSo) {
  Scenario scenario = only_network(Backend::kRing, 6);
  // After the round trips of a single packet, those of a queue of 100 KB look like losses.
  scenario.model.bucket_bytes = {4, 100'000};
  scenario.gradients = 256;
  scenario.link.rate_bits_per_s = scenario.host.nic_bits_per_s = 100'000'000;
  scenario.host.retransmission = true;
  EXPECT_GT(run_well(scenario).workers[0].retransmissions, 0U);
  scenario.host.retransmission = false;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.workers[0].retransmissions, 0U);
  const double least_s =
      least_traffic(scenario, backend_kind(Backend::kRing)) * 100'000 * 8 / 100e6;
  EXPECT_LT(in_seconds(result.mean_iteration), 1.25 * least_s);
}

TEST(PeersRun, StragglerDelaysEveryWorker) {
  for (Backend backend : {Backend::kPsDedicated, Backend::kPsColocated, Backend::kRing}) {
    Scenario scenario = only_network(backend, 4);
    scenario.model.bucket_bytes = {1 << 20};
    scenario.model.backward = milliseconds(10);
    scenario.straggler.pattern = Straggling::kFailSlow;
    scenario.straggler.factor = 3;
    const RunResult result = run_well(scenario);
    EXPECT_GE(result.mean_iteration, milliseconds(30)) << name_of(backend);
    EXPECT_LT(result.mean_iteration, milliseconds(31)) << name_of(backend);
    EXPECT_EQ(result.degraded_blocks, 0U);
  }
}

TEST(PeersRun, HostCostOfServersAddsTime) {
  Scenario scenario = only_network(Backend::kPsDedicated, 4);
  scenario.host.packet_cost = microseconds(1);
  const RunResult result = run_well(scenario);
  // 8192 packets. A server receives a quarter from each of four workers and returns as many; a
  // worker also sends and receives 8192. One microsecond each.
  EXPECT_GE(result.mean_iteration, microseconds(16'384));
  EXPECT_LE(result.mean_iteration, microseconds(17'500));
  ASSERT_EQ(result.aggregators.size(), 4U);
  EXPECT_EQ(result.aggregators[0].parts.at(0).name, "CPU in use");
  for (const AggregatorResult& server : result.aggregators) {
    EXPECT_NEAR(server.parts.at(0).value, 1, 0.01);
    EXPECT_LE(server.parts.at(0).value, 1);  // Work after the run's end does not count.
  }
  EXPECT_THAT(result.aggregators[0].bottleneck, HasSubstr("its CPU works 100 % of the time"));
}

}  // namespace
}  // namespace tributary::lab
