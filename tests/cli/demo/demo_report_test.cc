// SPDX-License-Identifier: Apache-2.0
// Method:  two runs of two workers with round numbers; the table is worked out by hand.
#include "cli/demo/demo_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tributary::demo {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

WorkerReport report(uint32_t rank, uint64_t degraded_blocks) {
  return {.rank = rank,
          .parameter_checksum = 42,
          .validation_loss = 2.0 + rank,
          .sums = {.checked = 100},
          .counters = {.retransmitted = 5 + rank, .degraded_blocks = degraded_blocks}};
}

/// Returns two iterations that end at `seconds` / 2 and `seconds`, with losses 4 and 2.
std::vector<IterationRecord> records(double seconds) {
  return {{.iteration = 0, .seconds = seconds / 2, .loss = 4.0},
          {.iteration = 1, .seconds = seconds, .loss = 2.0}};
}

std::vector<RunResult> two_runs() {
  return {{.plan = {.key = "clean", .title = "clean"},
           .records = {records(0.2), records(0.2)},
           .reports = {report(0, 0), report(1, 0)},
           .aggregator_json = ""},
          {.plan = {.key = "slow", .title = "slow", .slow_typical_ms = 100, .mitigation_ms = 5},
           .records = {records(0.4), records(0.8)},
           .reports = {report(0, 7), report(1, 9)},
           .aggregator_json = "{\"blocks\": 3}"}};
}

TEST(DemoReport, ComputesTheFiguresOfOneRun) {
  const RunFigures figures = figures_of(two_runs()[1]);
  EXPECT_NEAR(figures.iteration_seconds_mean, 0.3, 1e-12);  // (0.4 / 2 + 0.8 / 2) / 2
  EXPECT_EQ(figures.degraded_blocks, 9);
  EXPECT_EQ(figures.retransmissions, 11);
  EXPECT_NEAR(figures.final_loss, 2.5, 1e-12);
  EXPECT_TRUE(figures.parameters_identical);
  EXPECT_EQ(figures.sums, (SumCheck{.checked = 200}));
}

TEST(DemoReport, TableNamesItsFigures) {
  const std::string table = format_table(two_runs());
  EXPECT_THAT(table, ContainsRegex("iteration time +100.0 ms +300.0 ms"));
  EXPECT_THAT(table, ContainsRegex("time lost to the straggler +- +200.0 ms"));
  EXPECT_THAT(table, ContainsRegex("degraded blocks +0 +9"));
  EXPECT_THAT(table, ContainsRegex("retransmissions +11 +11"));
  EXPECT_THAT(table, ContainsRegex("final loss .* +2.500 +2.500"));
  EXPECT_THAT(table, ContainsRegex("parameters bit-identical on all workers +yes +yes"));
  EXPECT_THAT(table, HasSubstr("sums checked: 400, wrong: 0\n"));
}

TEST(DemoReport, OneWrongSumOrDifferentBitIsAFailure) {
  auto runs = two_runs();
  EXPECT_TRUE(all_is_well(runs));
  runs[1].reports[1].sums.wrong = 1;
  EXPECT_FALSE(all_is_well(runs));
  EXPECT_THAT(format_table(runs), HasSubstr("wrong: 1"));

  runs = two_runs();
  runs[0].reports[1].parameter_checksum = 43;
  EXPECT_FALSE(all_is_well(runs));
  EXPECT_THAT(format_table(runs), ContainsRegex("all workers +NO +yes"));

  runs = two_runs();
  for (RunResult& run : runs) {
    for (WorkerReport& worker : run.reports) worker.sums = {.unchecked = 100};
  }
  EXPECT_FALSE(all_is_well(runs));  // No sum was checked.
}

TEST(DemoReport, JsonHasTheSameFigures) {
  const auto json = nlohmann::json::parse(format_json(DemoConfig{}, two_runs()));
  EXPECT_EQ(json["sums_checked"], 400);
  EXPECT_EQ(json["sums_wrong"], 0);
  EXPECT_EQ(json["parameters_identical"], true);
  EXPECT_EQ(json["config"]["workers"], 4);
  EXPECT_EQ(json["runs"]["slow"]["degraded_blocks"], 9);
  EXPECT_NEAR(json["runs"]["slow"]["seconds_lost_per_iteration"], 0.2, 1e-12);
  EXPECT_EQ(json["runs"]["slow"]["aggregator"]["blocks"], 3);
  EXPECT_FALSE(json["runs"]["clean"].contains("aggregator"));
  EXPECT_EQ(json["runs"]["clean"]["workers"].size(), 2);
  EXPECT_EQ(json["runs"]["clean"]["loss_over_time"][1]["loss"], 2.0);
}

TEST(DemoReport, PlotHasOneSmoothedLinePerRun) {
  const lab::LinePlot plot = loss_plot(two_runs());
  ASSERT_EQ(plot.series.size(), 2);
  EXPECT_EQ(plot.series[1].name, "slow");
  ASSERT_EQ(plot.series[1].points.size(), 2);
  EXPECT_NEAR(plot.series[1].points[1].x, 0.6, 1e-12);  // Mean of 0.4 and 0.8.
  EXPECT_NEAR(plot.series[1].points[1].y, 3.0, 1e-12);  // Mean of 4 and 2.
}

}  // namespace
}  // namespace tributary::demo
