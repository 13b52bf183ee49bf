// SPDX-License-Identifier: Apache-2.0
// Method: eight workers send to one aggregator over one cable, with and without a reaction to ECN.
// The time has a bound by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using testing::run_well;

constexpr uint64_t kBlocks = 1024;
constexpr uint32_t kWorkers = 8;
/// A queue of 2 MB, as a switch with a shallow buffer has for a port.
constexpr uint64_t kQueueBytes = uint64_t{2} << 20;
/// About 50 packets: more than the packets of one round trip to the aggregator.
constexpr uint64_t kMarkBytes = 200'000;

/// Workers of two leaves, and an aggregator with one cable of 100 Gbit/s.
Scenario incast(Backend backend, host::CongestionControl control) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.topology = Topology::kLeafSpine;
  scenario.workers = kWorkers;
  scenario.fabric.rate_bits_per_s = 100'000'000'000;
  scenario.fabric.queue_bytes_max = kQueueBytes;
  scenario.fabric.ecn_bytes = kMarkBytes;
  scenario.iterations = 2;
  scenario.window = 256;
  scenario.mitigation.history = 8;
  scenario.host.retransmission = true;
  scenario.host.congestion = control;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {4096 * kBlocks}};
  return scenario;
}

/// The cable to the aggregator, where all contributions meet.
LinkResult bottleneck_of(const RunResult& result) {
  const auto found = std::find_if(result.links.begin(), result.links.end(), [](const auto& link) {
    return link.name.ends_with(">aggregator.0");
  });
  return found == result.links.end() ? LinkResult() : *found;
}

TEST(CongestionRun, WithoutAReactionTheQueueOverflows) {
  const RunResult result =
      run_well(incast(Backend::kWaitingSwitch, host::CongestionControl::kNone));
  const LinkResult link = bottleneck_of(result);
  EXPECT_GT(link.lost, 0U);
  EXPECT_GT(link.marked, 0U);
  EXPECT_GT(link.queue_bytes_peak, kQueueBytes * 9 / 10);
}

TEST(CongestionRun, MarksKeepTheQueueShortAndTheLinkBusy) {
  const RunResult without =
      run_well(incast(Backend::kWaitingSwitch, host::CongestionControl::kNone));
  // (4096 + 32 + 66) x 8 / 100 = 335.52 ns for each contribution.
  const double least_s = in_seconds(picoseconds(335'520)) * kBlocks * kWorkers;
  for (const auto control : {host::CongestionControl::kAimd, host::CongestionControl::kDctcp}) {
    const RunResult result = run_well(incast(Backend::kWaitingSwitch, control));
    const LinkResult link = bottleneck_of(result);
    EXPECT_EQ(link.lost, 0U) << host::name_of(control);
    EXPECT_GT(link.marked, 0U) << host::name_of(control);
    EXPECT_LT(link.queue_bytes_peak, kQueueBytes / 2) << host::name_of(control);
    EXPECT_GE(in_seconds(result.mean_iteration), least_s) << host::name_of(control);
    EXPECT_LE(in_seconds(result.mean_iteration), least_s * 1.15) << host::name_of(control);
    EXPECT_LE(result.mean_iteration, without.mean_iteration) << host::name_of(control);
    uint64_t resent = 0;
    for (const WorkerResult& worker : result.workers) resent += worker.retransmissions;
    EXPECT_EQ(resent, 0U) << host::name_of(control);
  }
}

TEST(CongestionRun, MarksReachTheWorkersThroughATree) {
  for (const auto control : {host::CongestionControl::kNone, host::CongestionControl::kAimd}) {
    Scenario scenario = incast(Backend::kTrioMlWait, control);
    scenario.topology = Topology::kTwoLevel;
    scenario.model.bucket_bytes = {4096 * 600};
    scenario.iterations = 1;
    scenario.fabric.rate_bits_per_s = 20'000'000'000;  // A fifth of a worker's cable.
    const RunResult result = run_well(scenario);
    uint64_t peak = 0;
    for (const LinkResult& link : result.links) {
      if (link.name.find(">top.") != std::string::npos)
        peak = std::max(peak, link.queue_bytes_peak);
    }
    const bool reacts = control != host::CongestionControl::kNone;
    // All of a window of 256 packets waits at the uplink, or the part that the marks leave.
    EXPECT_EQ(peak < kQueueBytes * 2 / 5, reacts) << peak;
  }
}

TEST(CongestionRun, ServersShareTheWindow) {
  const auto peak_of = [](host::CongestionControl control) {
    Scenario scenario = incast(Backend::kSharded, control);
    scenario.aggregators = {.colocated = false, .spare = 2};
    scenario.topology = Topology::kStar;
    scenario.link.queue_bytes_max = kQueueBytes;
    scenario.link.ecn_bytes = kMarkBytes;
    uint64_t peak = 0;
    for (const LinkResult& link : run_well(scenario).links) {
      if (link.name.find(">server-") != std::string::npos)
        peak = std::max(peak, link.queue_bytes_peak);
    }
    return peak;
  };
  EXPECT_LT(peak_of(host::CongestionControl::kAimd), peak_of(host::CongestionControl::kNone));
}

TEST(CongestionRun, SumsStayExactAndRunsRepeat) {
  Scenario scenario = incast(Backend::kTrioMlWait, host::CongestionControl::kDctcp);
  scenario.payload = Payload::kReal;
  scenario.model.bucket_bytes = {4096 * 300};
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.checked_sums, uint64_t{1024} * 300 * kWorkers * 2);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(run_well(scenario).digest, result.digest);
}

TEST(CongestionRun, WithoutMarksNothingChangesButTheStart) {
  Scenario scenario = incast(Backend::kWaitingSwitch, host::CongestionControl::kAimd);
  scenario.fabric.ecn_bytes = UINT64_MAX;
  scenario.fabric.queue_bytes_max = uint64_t{64} << 20;
  const RunResult with = run_well(scenario);
  scenario.host.congestion = host::CongestionControl::kNone;
  const RunResult without = run_well(scenario);
  EXPECT_LE(in_seconds(with.mean_iteration), in_seconds(without.mean_iteration) * 1.05);
}

TEST(CongestionRun, TrainsAreAllowedWithAWarning) {
  const auto warnings_of = [](host::CongestionControl control) {
    Scenario scenario = incast(Backend::kWaitingSwitch, control);
    scenario.train = 2;
    return run_well(scenario).warnings;
  };
  EXPECT_THAT(warnings_of(host::CongestionControl::kDctcp),
              ::testing::Contains(
                  HasSubstr("With host.congestion=dctcp windows grow and shrink by whole trains")));
  for (const std::string& text : warnings_of(host::CongestionControl::kNone)) {
    EXPECT_THAT(text, ::testing::Not(HasSubstr("host.congestion")));
  }
}

TEST(CongestionRun, RefusesBackEndsWithoutAWindow) {
  const auto refusal = [](Backend backend) {
    Scenario scenario = incast(backend, host::CongestionControl::kAimd);
    scenario.topology = Topology::kStar;
    return run_scenario(scenario).error().text;
  };
  EXPECT_EQ(refusal(Backend::kRing),
            "host.congestion=aimd is not allowed; allowed: none, with backend=ring");
  EXPECT_THAT(refusal(Backend::kSwitchml64), HasSubstr("none, with backend=switchml-64"));
  Scenario scenario = incast(Backend::kTrioMl, host::CongestionControl::kAimd);
  scenario.host.priorities = 2;
  EXPECT_EQ(run_scenario(scenario).error().text,
            "host.congestion=aimd is not allowed; allowed: none, with host.priorities above 1");
}

}  // namespace
}  // namespace tributary::lab
