// SPDX-License-Identifier: Apache-2.0
// Method: rows and texts from outcomes written by hand, then a small comparison that really runs.
#include "lab/compare/compare_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/sweep/runner.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// An outcome with the fields that the report reads.
PointOutcome outcome(double ms, uint64_t sent_bytes) {
  RunResult result;
  result.mean_iteration = from_ns(ms * 1e6);
  result.blocks = 4;
  result.degraded_blocks = 1;
  result.bottleneck = "link x is used 90 %";
  result.workers.resize(2);
  result.workers[0].wire_bytes_sent = sent_bytes;
  result.workers[0].wire_bytes_received = sent_bytes * 2;
  result.workers[0].retransmissions = 3;
  result.workers[1].retransmissions = 4;
  result.aggregators.resize(2);
  result.aggregators[0].add(PartKind::kMemory, 1.5, "MB");
  result.aggregators[0].add(PartKind::kStages, 12, "of a pipe");
  result.aggregators[1].add(PartKind::kMemory, 2, "MB");
  return {.result = result, .accuracy = {}};
}

RunnerOutcome all_finished(const std::vector<PointOutcome>& outcomes) {
  RunnerOutcome ran;
  ran.points.assign(outcomes.begin(), outcomes.end());
  ran.failures.resize(outcomes.size());
  ran.finished = outcomes.size();
  return ran;
}

Comparison compared(const std::vector<double>& straggling) {
  const CompareLists lists{.backends = {Backend::kWaitingSwitch, Backend::kTrioMl, Backend::kRing},
                           .models = {Model::kResnet50},
                           .workers = {6},
                           .loss = {0},
                           .straggling = straggling,
                           .baseline = Backend::kWaitingSwitch};
  return *make_comparison(lists, {});
}

TEST(CompareReport, RowsMatchHandWorkedValues) {
  const Comparison comparison = compared({0.16});
  const std::vector<PointOutcome> outcomes{outcome(180, 4e9), outcome(100, 4e9), outcome(200, 8e9)};
  const auto rows = compare_rows(comparison, all_finished(outcomes));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].backend, Backend::kTrioMl);
  EXPECT_DOUBLE_EQ(*rows[1].iteration_ms, 100);
  EXPECT_DOUBLE_EQ(*rows[1].speedup, 1.8);
  EXPECT_EQ(rows[1].paper, 1.72);
  EXPECT_EQ(rows[1].paper_source, "Trio paper §6.2");
  EXPECT_DOUBLE_EQ(*rows[0].speedup, 1);
  EXPECT_FALSE(rows[0].paper);
  EXPECT_FALSE(rows[2].paper);
  // 4 GB in 20 iterations.
  EXPECT_DOUBLE_EQ(*rows[0].sent_mb, 200);
  EXPECT_DOUBLE_EQ(*rows[0].received_mb, 400);
  EXPECT_DOUBLE_EQ(*rows[0].retransmissions, 7);
  // ResNet50's 25.56 million parameters at 100 Gbit/s, and 2 x 5 / 6 times as much.
  EXPECT_NEAR(*rows[0].least_comm_ms, 8.18, 0.01);
  EXPECT_NEAR(*rows[2].least_comm_ms, 8.18 * 10 / 6, 0.02);
}

TEST(CompareReport, OtherCasesHaveNoPaperValue) {
  const Comparison comparison = compared({0, 0.08});
  const std::vector<PointOutcome> outcomes(6, outcome(100, 1));
  for (const CompareRow& row : compare_rows(comparison, all_finished(outcomes)))
    EXPECT_FALSE(row.paper);
}

TEST(CompareReport, TextFormatsAgree) {
  Comparison comparison = compared({0, 0.16});
  comparison.cells[5].point.reset();
  comparison.cells[5].refusal = "train=64 is not allowed; allowed: 1";
  const std::vector<PointOutcome> outcomes(6, outcome(123.4, 4e9));
  const auto rows = compare_rows(comparison, all_finished(outcomes));
  const std::string text = compare_text(comparison, rows);
  EXPECT_THAT(text, HasSubstr("resnet50, 6 workers, loss 0 %, straggling 16 %"));
  EXPECT_THAT(text, HasSubstr("waiting-switch *"));
  EXPECT_THAT(text, HasSubstr("ring was not run: train=64 is not allowed; allowed: 1"));
  EXPECT_THAT(text, HasSubstr("trio-ml: link x is used 90 %"));
  EXPECT_THAT(text, HasSubstr("paper: Trio paper §6.2"));
  EXPECT_THAT(text, HasSubstr("in the aggregators  memory_MB  stages\n"));  // No other cost.

  const Json json = Json::parse(compare_json(comparison, rows));
  ASSERT_EQ(json.size(), 6U);
  EXPECT_EQ(json[4]["backend"], "trio-ml");
  EXPECT_EQ(json[4]["straggling"], 0.16);
  EXPECT_EQ(json[4]["iteration_ms"], 123.4);
  EXPECT_EQ(json[4]["paper"], 1.72);
  EXPECT_EQ(json[4]["refused"], nullptr);
  EXPECT_EQ(json[4]["aggregators"].size(), 2U);
  EXPECT_EQ(json[4]["memory_mb"], 3.5);  // Sum of both aggregators.
  EXPECT_EQ(json[4]["stages"], 12);      // The larger of the two.
  EXPECT_EQ(json[4]["slots"], nullptr);
  EXPECT_EQ(json[5]["refused"], "train=64 is not allowed; allowed: 1");
  EXPECT_EQ(json[5]["iteration_ms"], nullptr);

  const std::string csv = compare_csv(rows);
  EXPECT_THAT(csv, StartsWith("model,workers,loss,straggling,backend,refused,iteration_ms,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_THAT(csv, HasSubstr("resnet50,6,0,0.16,trio-ml,,123.4,1,1.72,"));
  EXPECT_THAT(csv, HasSubstr("ring,train=64 is not allowed; allowed: 1,,,,"));
}

TEST(CompareReport, PlotsOverTheKeyWithMostValues) {
  const Comparison comparison = compared({0, 0.08, 0.16});
  const std::vector<PointOutcome> outcomes(9, outcome(100, 1));
  const auto plots = compare_plots(compare_rows(comparison, all_finished(outcomes)));
  ASSERT_EQ(plots.size(), 2U);  // Nobody skipped or missed anything.
  EXPECT_EQ(plots[1].y_label, "results that lack a worker (%)");
  EXPECT_EQ(plots[1].title, "Degraded: " + plots[0].title);
  EXPECT_EQ(plots[1].series[0].points[0].y, 25);
  EXPECT_EQ(plots[0].x_label, "straggling probability (%)");
  EXPECT_THAT(plots[0].title, HasSubstr("workers 6"));
  ASSERT_EQ(plots[0].series.size(), 4U);
  ASSERT_EQ(plots[0].series[2].points.size(), 3U);
  EXPECT_EQ(plots[0].series[2].points[1].x, 8);
  // 1.72 times as fast as the baseline, at 16 %.
  EXPECT_EQ(plots[0].series[3].name, "paper's speed-up");
  ASSERT_EQ(plots[0].series[3].points.size(), 1U);
  EXPECT_EQ(plots[0].series[3].points[0].x, 16);
  EXPECT_NEAR(plots[0].series[3].points[0].y, 100 / 1.72, 1e-9);

  const CompareLists lists{.backends = {Backend::kRing},
                           .models = {Model::kResnet50, Model::kVgg11},
                           .workers = {4, 8},
                           .loss = {0},
                           .straggling = {0}};
  const Comparison workers = *make_comparison(lists, {});
  const std::vector<PointOutcome> others(4, outcome(100, 1));
  const auto by_workers = compare_plots(compare_rows(workers, all_finished(others)));
  ASSERT_EQ(by_workers.size(), 4U);  // Times of two models, then their degraded shares.
  EXPECT_EQ(by_workers[1].x_label, "workers");
  EXPECT_TRUE(compare_plots({}).empty());
}

// Two seeds. Waiting: 100 and 140 ms; trio-ml: 100 and 70, so 1 and 2 times as fast.
TEST(CompareReport, SeedsGiveMeansAndErrors) {
  CompareLists lists{.backends = {Backend::kWaitingSwitch, Backend::kTrioMl},
                     .models = {Model::kResnet50},
                     .workers = {6},
                     .loss = {0},
                     .straggling = {0, 0.16}};
  const Comparison comparison = *make_comparison(lists, {}, 2);
  ASSERT_EQ(comparison.points.size(), 6U);  // Without stragglers no seed decides anything.
  EXPECT_EQ(comparison.points[3].label,
            "waiting-switch resnet50 workers=6 loss=0 straggling=0.16 seed=2");
  const std::vector<PointOutcome> outcomes{outcome(50, 1),  outcome(50, 1),  outcome(100, 1),
                                           outcome(140, 1), outcome(100, 1), outcome(70, 1)};
  const auto rows = compare_rows(comparison, all_finished(outcomes));
  EXPECT_DOUBLE_EQ(*rows[3].iteration_ms, 85);
  EXPECT_DOUBLE_EQ(*rows[3].speedup, 1.5);
  EXPECT_DOUBLE_EQ(rows[3].speedup_sample->standard_error, 0.5);
  EXPECT_EQ(rows[3].seeds, 2U);
  EXPECT_FALSE(rows[0].iteration_sample);
  const std::string text = compare_text(comparison, rows);
  EXPECT_THAT(text, HasSubstr("85 ± 15"));
  EXPECT_THAT(text, HasSubstr("standard error of the mean over 2 seeds"));
  const Json json = Json::parse(compare_json(comparison, rows));
  EXPECT_EQ(json[3]["standard_error"], 15);
  EXPECT_EQ(json[3]["low"], 70);
  EXPECT_EQ(json[3]["speedup_standard_error"], 0.5);
  EXPECT_EQ(json[0]["standard_error"], nullptr);
  EXPECT_THAT(compare_csv(rows), HasSubstr(",seeds,standard_error,speedup_standard_error,"));
  EXPECT_EQ(compare_plots(rows)[0].series[1].points[1].error, 15);

  // One seed of trio-ml fails: no mean over the other.
  RunnerOutcome ran = all_finished(outcomes);
  ran.points[5].reset();
  ran.failures[5] = "worker 2 hangs";
  const auto failed = compare_rows(comparison, ran);
  EXPECT_FALSE(failed[3].iteration_ms);
  EXPECT_EQ(failed[3].refusal, "1 of 2 seeds failed: worker 2 hangs");
  EXPECT_THAT(compare_text(comparison, failed), HasSubstr("trio-ml was not run: 1 of 2 seeds"));
}

/// Returns a comparison of one cell: ResNet50 on Trio-ML with 16 % straggling, two seeds.
Comparison one_cell_of_two_seeds() {
  const CompareLists lists{.backends = {Backend::kTrioMl},
                           .models = {Model::kResnet50},
                           .workers = {6},
                           .loss = {0},
                           .straggling = {0.16}};
  return *make_comparison(lists, {}, 2);
}

// Two aggregators have 1.5 + 2 MB and 12 stages. In the second run one has 4.5 MB, and 20 stages.
TEST(CompareReport, ResourcesAreMeansOverTheSeeds) {
  const Comparison comparison = one_cell_of_two_seeds();
  std::vector<PointOutcome> outcomes(2, outcome(100, 1));
  AggregatorResult& other = outcomes[1].result.aggregators[0];
  other.parts.clear();
  other.add(PartKind::kMemory, 4.5, "MB");
  other.add(PartKind::kStages, 20, "of a pipe");
  outcomes[1].result.bottleneck = "link y is used 80 %";
  const auto rows = compare_rows(comparison, all_finished(outcomes));
  const Json json = Json::parse(compare_json(comparison, rows));
  EXPECT_EQ(json[0]["memory_mb"], 5);  // (3.5 + 6.5) / 2.
  EXPECT_EQ(json[0]["stages"], 16);    // (12 + 20) / 2.
  EXPECT_EQ(json[0]["slots"], nullptr);
  EXPECT_EQ(json[0]["bottleneck"], "link x is used 90 %");
  EXPECT_THAT(compare_text(comparison, rows), HasSubstr("bottlenecks those of the first seed"));

  // A mean over some of the seeds would be none of all.
  other.parts.pop_back();
  const auto partly = compare_rows(comparison, all_finished(outcomes));
  EXPECT_EQ(Json::parse(compare_json(comparison, partly))[0]["stages"], nullptr);
}

TEST(CompareReport, SettingsStandBesideThePapersValues) {
  const auto compared_with = [](const std::vector<WrittenKey>& settings, double straggling) {
    const CompareLists lists{.backends = {Backend::kWaitingSwitch, Backend::kTrioMl},
                             .models = {Model::kResnet50},
                             .workers = {6},
                             .loss = {0},
                             .straggling = {straggling}};
    return *make_comparison(lists, settings);
  };
  const std::vector<PointOutcome> outcomes(2, outcome(100, 1));
  const std::vector<WrittenKey> settings{{.name = "link.rate_gbps", .text = "10", .where = ""}};
  constexpr char kLine[] =
      "  Set over the comparison's own: link.rate_gbps=10. The paper's values are those of its own "
      "set-up.\n";
  const Comparison changed = compared_with(settings, 0.16);
  const auto rows = compare_rows(changed, all_finished(outcomes));
  EXPECT_EQ(rows[1].paper, 1.72);
  EXPECT_THAT(compare_text(changed, rows), HasSubstr(kLine));
  EXPECT_EQ(Json::parse(compare_json(changed, rows))[1]["settings"], "link.rate_gbps=10");
  EXPECT_THAT(compare_csv(rows), HasSubstr(",link.rate_gbps=10,"));

  const auto has_line = [&outcomes](const Comparison& comparison) {
    const std::string text =
        compare_text(comparison, compare_rows(comparison, all_finished(outcomes)));
    return text.find("Set over") != std::string::npos;
  };
  EXPECT_FALSE(has_line(compared_with(settings, 0)));  // No value of the paper.
  EXPECT_FALSE(has_line(compared_with({}, 0.16)));
}

// A quarter and three quarters of the sums: 50 ± 25 %.
TEST(CompareReport, SharesHaveErrorsToo) {
  const Comparison comparison = one_cell_of_two_seeds();
  std::vector<PointOutcome> outcomes(2, outcome(100, 1));
  outcomes[1].result.degraded_blocks = 3;
  const auto rows = compare_rows(comparison, all_finished(outcomes));
  EXPECT_DOUBLE_EQ(*rows[0].degraded_fraction, 0.5);
  EXPECT_DOUBLE_EQ(rows[0].degraded_sample->standard_error, 0.25);
  EXPECT_THAT(compare_text(comparison, rows), HasSubstr("50 ± 25"));
  EXPECT_EQ(Json::parse(compare_json(comparison, rows))[0]["degraded_standard_error"], 0.25);
  EXPECT_EQ(compare_plots(rows)[1].series[0].points[0].error, 25);
}

TEST(CompareReport, NamesTheTrains) {
  const Comparison comparison = compared({0});
  const std::vector<PointOutcome> outcomes(3, outcome(100, 1));
  auto rows = compare_rows(comparison, all_finished(outcomes));
  EXPECT_THAT(compare_text(comparison, rows),
              HasSubstr("Trains of 64 packets; --set train=1 for single packets.\n"));
  rows[1].train = 1;
  EXPECT_THAT(compare_text(comparison, rows), HasSubstr("Trains of 1 to 64 packets;"));
  for (CompareRow& row : rows) row.train = 1;
  EXPECT_THAT(compare_text(comparison, rows), ::testing::Not(HasSubstr("Trains of")));
}

TEST(CompareReport, OneSeedOfARunByChanceIsSaid) {
  const std::vector<PointOutcome> three(3, outcome(100, 1));
  const auto text_of = [&three](double straggling) {
    const Comparison comparison = compared({straggling});
    return compare_text(comparison, compare_rows(comparison, all_finished(three)));
  };
  EXPECT_THAT(text_of(0.16), HasSubstr("--seeds 20"));
  EXPECT_THAT(text_of(0), ::testing::Not(HasSubstr("--seeds 20")));
}

TEST(CompareReport, SmallComparisonRuns) {
  const CompareLists lists{.backends = {Backend::kIdeal, Backend::kTrioMl, Backend::kPsDedicated,
                                        Backend::kPsColocated, Backend::kRing},
                           .models = {Model::kCustom},
                           .workers = {4},
                           .loss = {0, 0.001},
                           .straggling = {0}};
  const std::vector<WrittenKey> settings{
      {.name = "model.bucket_bytes", .text = "8388608", .where = ""},
      {.name = "iterations", .text = "2", .where = ""},
      {.name = "window", .text = "256", .where = ""},
      {.name = "host.packet_cost_ns", .text = "10", .where = ""},
      {.name = "host.gradients_cost_ns", .text = "0", .where = ""},
      {.name = "train", .text = "8", .where = ""}};
  const auto comparison = make_comparison(lists, settings);
  ASSERT_TRUE(comparison) << comparison.error().text;
  const auto ran = run_points(comparison->points, {.threads = 2});
  ASSERT_TRUE(ran) << ran.error().text;
  const auto rows = compare_rows(*comparison, *ran);
  ASSERT_EQ(rows.size(), 10U);
  for (const CompareRow& row : rows) {
    EXPECT_GT(*row.iteration_ms, *row.least_comm_ms) << name_of(row.backend);
    EXPECT_EQ(*row.degraded_fraction, 0) << name_of(row.backend);
  }
  EXPECT_EQ(rows[0].speedup, 1);
  EXPECT_NEAR(*rows[2].speedup, 1, 0.1);        // ps-dedicated
  EXPECT_NEAR(*rows[3].speedup, 4 / 6.0, 0.1);  // ps-colocated: n / (2 (n - 1))
  EXPECT_NEAR(*rows[4].speedup, 4 / 6.0, 0.1);  // ring
  EXPECT_TRUE(Json::parse(compare_json(*comparison, rows))[1]["memory_mb"].is_number());
  EXPECT_GT(*rows[9].retransmissions, 0);
}

// Three PFEs: totals add up, but figures per packet do not.
TEST(CompareReport, AddsUpTotalsOfSeveralAggregators) {
  const CompareLists lists{.backends = {Backend::kTrioMl},
                           .models = {Model::kCustom},
                           .workers = {4},
                           .loss = {0},
                           .straggling = {0}};
  const std::vector<WrittenKey> settings{
      {.name = "topology", .text = "chassis", .where = ""},
      {.name = "model.bucket_bytes", .text = "65536", .where = ""},
      {.name = "iterations", .text = "1", .where = ""}};
  const auto comparison = make_comparison(lists, settings);
  ASSERT_TRUE(comparison) << comparison.error().text;
  const auto ran = run_points(comparison->points, {.threads = 1});
  ASSERT_TRUE(ran) << ran.error().text;
  double memory_mb = 0;
  double instructions = 0;
  const auto outcomes = ran->outcomes();
  for (const AggregatorResult& aggregator : outcomes.at(0).result.aggregators) {
    for (const AggregatorResult::Part& part : aggregator.parts) {
      if (part.kind == PartKind::kMemory) memory_mb += part.value;
      if (part.kind == PartKind::kInstructionsPerPacket) {
        instructions = std::max(instructions, part.value);
      }
    }
  }
  const auto rows = compare_rows(*comparison, *ran);
  const Json json = Json::parse(compare_json(*comparison, rows));
  EXPECT_GT(instructions, 0);
  EXPECT_NEAR(json[0]["memory_mb"].get<double>(), memory_mb, 1e-9 * memory_mb);
  EXPECT_NEAR(json[0]["instructions_per_packet"].get<double>(), instructions, 1e-9 * instructions);
}

TEST(CompareReport, ShowsMachineResourcesBesideTheTime) {
  const CompareLists lists{.backends = {Backend::kSwitchml64, Backend::kSwitchml64Timeout,
                                        Backend::kSwitchmlOnTrio, Backend::kTrioMl, Backend::kRing},
                           .models = {Model::kCustom},
                           .workers = {4},
                           .loss = {0},
                           .straggling = {0.5}};
  const std::vector<WrittenKey> settings{
      {.name = "model.bucket_bytes", .text = "1048576", .where = ""},
      {.name = "model.backward_ms", .text = "2", .where = ""},
      {.name = "straggler.typical_iteration_ms", .text = "20", .where = ""},
      {.name = "mitigation.timeout_ms", .text = "1", .where = ""},
      // Room for the whole tensor, because a timeout frees at most the pool.
      {.name = "switchml.pool", .text = "4096", .where = ""},
      {.name = "iterations", .text = "4", .where = ""},
      {.name = "window", .text = "256", .where = ""},
      {.name = "train", .text = "8", .where = ""}};
  const auto comparison = make_comparison(lists, settings);
  ASSERT_TRUE(comparison) << comparison.error().text;
  const auto ran = run_points(comparison->points, {.threads = 2});
  ASSERT_TRUE(ran) << ran.error().text;
  const auto rows = compare_rows(*comparison, *ran);
  const Json json = Json::parse(compare_json(*comparison, rows));
  const auto has = [&json](size_t row, const char* key) { return json[row][key].is_number(); };
  for (const char* key : {"slots", "memory_mb", "stages", "stateful_alus", "sram_blocks",
                          "passes_per_packet", "recirculated_gbps"}) {
    EXPECT_TRUE(has(0, key)) << key;
    EXPECT_TRUE(has(1, key)) << key;
    EXPECT_FALSE(has(4, key)) << key;
  }
  for (const char* key :
       {"slots", "memory_mb", "instructions_per_packet", "threads_share", "rmw_share"}) {
    EXPECT_TRUE(has(2, key)) << key;
    EXPECT_TRUE(has(3, key)) << key;
  }
  // The cost of the timeout, and its benefit.
  EXPECT_FALSE(has(0, "slots_given_up"));
  EXPECT_GT(json[1]["slots_given_up"], 0);
  EXPECT_GT(json[1]["sweeping_packets"], 0);
  EXPECT_GT(json[1]["stateful_alus"], json[0]["stateful_alus"]);
  EXPECT_LT(*rows[1].iteration_ms, 0.8 * *rows[0].iteration_ms);
  EXPECT_GT(*rows[1].degraded_fraction, 0);
  EXPECT_GT(*rows[1].missed_fraction, 0);
  EXPECT_EQ(*rows[0].degraded_fraction, 0);
  EXPECT_EQ(*rows[0].missed_fraction, 0);
  EXPECT_EQ(*rows[3].missed_fraction, 0);  // Trio keeps results for late workers.
  // They skip what the others have completed, and every other block is whole.
  EXPECT_GT(*rows[3].skipped_fraction, 0);
  EXPECT_LE(*rows[3].skipped_fraction, *rows[3].degraded_fraction);
  EXPECT_EQ(*rows[0].skipped_fraction, 0);
}

}  // namespace
}  // namespace tributary::lab
