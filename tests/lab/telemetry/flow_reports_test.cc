// SPDX-License-Identifier: Apache-2.0
// Method: reports by hand over a trace of three flows, of which two are large.
#include "lab/telemetry/flow_reports.h"

#include <gtest/gtest.h>

#include <vector>

#include "traffic/generator.h"

namespace tributary::lab {
namespace {

/// A trace whose flows of rank 0 and 1 are large.
struct ThreeFlows {
  ThreeFlows() {
    traffic::Config trace;
    trace.packets = 1'000;
    trace.background.flows = 3;
    trace.background.zipf = 2;
    trace.background.churn = 0;
    truth = *FlowTruth::create(trace, 2);
    auto generator = *traffic::Generator::create(trace);
    while (const auto packet = generator.next()) {
      const FlowKey key = *flow_of(packet->frame);
      if (!truth.large().contains(key)) small = key;
    }
    for (const auto& [key, flow] : truth.large()) {
      (flow.packets == truth.threshold() ? second : first) = key;
    }
  }
  [[nodiscard]] Instant after(const FlowKey& key, Duration duration) const {
    return truth.large().at(key).reached_at + duration;
  }
  [[nodiscard]] uint64_t packets_of(const FlowKey& key) const {
    return truth.large().at(key).packets;
  }
  FlowTruth truth;
  FlowKey first;
  FlowKey second;
  FlowKey small;
};

TEST(FlowReports, NoReportFindsNothing) {
  const ThreeFlows flows;
  ASSERT_EQ(flows.truth.large().size(), 2U);
  const FlowScore score = FlowReports(flows.truth).score();
  EXPECT_EQ(score.recall, 0);
  EXPECT_EQ(score.false_positives, 0U);
  EXPECT_EQ(score.count_error, 1);
  EXPECT_FALSE(score.detect_ms.has_value());
}

TEST(FlowReports, TheFirstReportOfTheThresholdDetects) {
  const ThreeFlows flows;
  const uint64_t threshold = flows.truth.threshold();
  FlowReports reports(flows.truth);
  reports.report(flows.after(flows.first, milliseconds(1)), flows.first, threshold - 1);
  EXPECT_EQ(reports.score().recall, 0);
  reports.report(flows.after(flows.first, milliseconds(4)), flows.first, threshold);
  reports.report(flows.after(flows.first, milliseconds(9)), flows.first,
                 flows.packets_of(flows.first));
  // A report before the flow is large waits for nothing.
  reports.report(flows.after(flows.second, milliseconds(-1)), flows.second, threshold);
  const FlowScore score = reports.score();
  EXPECT_EQ(score.recall, 1);
  EXPECT_DOUBLE_EQ(*score.detect_ms, 2);  // (4 + 0) / 2.
  EXPECT_EQ(score.count_error, 0);
}

TEST(FlowReports, AddsDeltasAndKeepsTheLargestCount) {
  const ThreeFlows flows;
  const uint64_t packets = flows.packets_of(flows.second);
  FlowReports reports(flows.truth);
  reports.add(Instant(), flows.second, packets / 2);
  EXPECT_EQ(reports.score().recall, 0);
  reports.add(Instant(), flows.second, packets - packets / 2);
  EXPECT_EQ(reports.score().recall, 0.5);
  EXPECT_DOUBLE_EQ(reports.score().count_error, 0.5);  // One is exact, one was never seen.
  // The sketch has evicted the flow, then given it a slot with a small count.
  reports.report(Instant(), flows.second, 1);
  EXPECT_DOUBLE_EQ(reports.score().count_error, 0.5);
  // A count of twice the packets has an error of 1.
  reports.report(Instant(), flows.second, 2 * packets);
  EXPECT_DOUBLE_EQ(reports.score().count_error, 1);
}

TEST(FlowReports, SmallFlowsWithLargeCountsAreFalsePositives) {
  const ThreeFlows flows;
  FlowReports reports(flows.truth);
  reports.report(Instant(), flows.small, flows.truth.threshold() - 1);
  EXPECT_EQ(reports.score().false_positives, 0U);
  reports.report(Instant(), flows.small, flows.truth.threshold());
  EXPECT_EQ(reports.score().false_positives, 1U);
  EXPECT_EQ(reports.score().recall, 0);
}

}  // namespace
}  // namespace tributary::lab
