// SPDX-License-Identifier: Apache-2.0
// Method: each figure with settings over its own scenarios. A setting is refused, or the rows
// follow it: values from outcomes written by hand, and bounds of quick runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab/figures/figure.h"
#include "tests/lab/figures/quick_figure.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

/// Returns the quick options with "key=value" settings. Fails if one of them is refused.
FigureOptions quick_with(const std::vector<std::string>& texts) {
  FigureOptions options = kQuick;
  for (const std::string& text : texts) {
    const auto written = split_setting(text, "--set");
    const auto setting = written ? read_setting(*written) : tl::unexpected(written.error());
    EXPECT_TRUE(setting) << text;
    if (setting) options.settings.push_back(*setting);
  }
  return options;
}

/// Returns why a figure refuses the settings at its quick size.
std::string refusal(const Figure& figure, const std::vector<std::string>& texts) {
  const auto good = check_settings(figure, quick_with(texts));
  return good ? "accepted" : good.error().text;
}

/// Returns the figure from its quick points with the settings, where all have the same outcome.
FigureOutcome outcome_with(const Figure& figure, const std::vector<std::string>& texts,
                           const PointOutcome& outcome) {
  const FigureOptions options = quick_with(texts);
  EXPECT_EQ(refusal(figure, texts), "accepted");
  const auto points = figure.points(options);
  EXPECT_TRUE(points);
  if (!points) return {};
  return figure.finish(options, *points, std::vector<PointOutcome>(points->size(), outcome));
}

TEST(FigureSettings, KeysThatRowsRelyOnAreRefused) {
  uint32_t with_keys = 0;
  for (const Figure& figure : figures()) {
    with_keys += relied_keys(figure).empty() ? 0 : 1;
    for (const std::string_view key : relied_keys(figure)) {
      ASSERT_NE(find_scenario_key(key), nullptr) << figure.name << ": " << key;
      for (const bool quick : {false, true}) {
        FigureOptions options{.seeds = 1, .quick = quick};
        options.settings = {
            {.name = std::string(key), .where = "--set", .set = [](Scenario& /*scenario*/) {}}};
        const auto good = check_settings(figure, options);
        ASSERT_FALSE(good) << figure.name << ": " << key;
        EXPECT_THAT(good.error().text, HasSubstr("--set: " + std::string(key) + " is not allowed"));
      }
    }
  }
  EXPECT_EQ(with_keys, 17U);  // The table has no name that no figure has.
}

TEST(FigureSettings, RefusalNamesTheFiguresValue) {
  EXPECT_EQ(refusal(trio_13_settings(), {"straggler.probability=0.5"}),
            "--set: straggler.probability is not allowed, because rows of trio-13-settings are "
            "computed for straggler.probability=0.16; allowed: other keys; use for this one: "
            "tributary lab run, tributary lab sweep");
  EXPECT_THAT(refusal(byteps_16(), {"workers=8"}), HasSubstr("computed for workers=4"));
  EXPECT_THAT(refusal(scheduling(), {"link.rate_gbps=25"}), HasSubstr("link.rate_gbps=10"));
  // A pause would also delay the runs of 0 %.
  EXPECT_THAT(refusal(alternatives(), {"straggler.pattern=pause"}),
              HasSubstr("straggler.pattern=slow-worker;"));
  EXPECT_THAT(refusal(trio_14(), {"straggler.pattern=none"}),
              HasSubstr("straggler.pattern=absent"));
  // A ring has no aggregator whose latency the row would have.
  EXPECT_THAT(refusal(trio_15(), {"backend=ring"}), HasSubstr("backend=trio-ml-wait"));
}

TEST(FigureSettings, IterationsHaveAnOptionOfTheirOwn) {
  EXPECT_EQ(refusal(trio_16(), {"iterations=4"}),
            "--set: iterations is not allowed in a figure, which may count bursts, blocks or "
            "windows instead; allowed: --iterations");
  EXPECT_TRUE(check_settings(trio_16(), {.iterations = 4, .quick = true}));
  // Its runs are those of other figures.
  const auto good = check_settings(constants(), {.iterations = 4, .quick = true});
  ASSERT_FALSE(good);
  EXPECT_THAT(good.error().text, HasSubstr("--iterations: iterations is not allowed"));
}

TEST(FigureSettings, Trio16CountsTheAddsOfItsScenario) {
  PointOutcome outcome;
  outcome.result.total = microseconds(16);
  outcome.result.aggregators.resize(1);
  // Window 1: 32 blocks of 512 gradients, 16,384 adds of each worker in 16 us.
  const char* series = "Trio-ML-512 throughput";
  EXPECT_DOUBLE_EQ(value_at(outcome_with(trio_16(), {}, outcome), series, 1), 4 * 1.024);
  EXPECT_DOUBLE_EQ(value_at(outcome_with(trio_16(), {"workers=1"}, outcome), series, 1), 1.024);
}

TEST(FigureSettings, TrioGenerationsCountsThePacketsOfItsScenario) {
  PointOutcome outcome;
  outcome.result.total = microseconds(64);
  // Two windows of 64 packets of each worker in 64 us.
  const char* series = "Trio-ML, 1024 gradients";
  EXPECT_DOUBLE_EQ(value_at(outcome_with(trio_generations(), {}, outcome), series, 5), 8);
  EXPECT_DOUBLE_EQ(value_at(outcome_with(trio_generations(), {"workers=3"}, outcome), series, 5),
                   6);
}

TEST(FigureSettings, Switchml3CountsTheElementsOfItsScenario) {
  PointOutcome outcome;
  outcome.result.mean_iteration = microseconds(400);
  // 100,000 elements in 400 us: 250 a microsecond, 8 Gbit/s of 10.
  const FigureOutcome figure = outcome_with(switchml_3(), {"model.bucket_bytes=400000"}, outcome);
  EXPECT_DOUBLE_EQ(value_at(figure, "10G switchml-256", 8), 250);
  EXPECT_DOUBLE_EQ(value_at(figure, "10G switchml-256 of the line", 8), 0.8);
  for (const FigureRow& row :
       quick_outcome(switchml_3(), quick_with({"model.bucket_bytes=400000"})).rows) {
    EXPECT_TRUE(row.unit != "share" || row.here <= 1) << row.series << " " << row.x;
  }
}

TEST(FigureSettings, Byteps12HasTheOptimumOfItsScenario) {
  PointOutcome outcome;
  outcome.result.mean_iteration = microseconds(10'240);
  // Four tensors of 16 MB in 10.24 ms are 50 Gbit/s. Four workers on 90 Gbit/s reach 60 without
  // spare machines, and 90 with four or more.
  const FigureOutcome few = outcome_with(byteps_12(), {"workers=4"}, outcome);
  EXPECT_DOUBLE_EQ(value_at(few, "optimum", 0), 60);
  EXPECT_DOUBLE_EQ(value_at(few, "optimum", 8), 90);
  EXPECT_DOUBLE_EQ(value_at(few, "sharded, of the optimum", 0), 100 * 50 / 60.0);
  // Eight workers on 10 Gbit/s: 10 x 64 / 112.
  const FigureOutcome slow =
      outcome_with(byteps_12(), {"link.rate_gbps=10", "host.nic_gbps=10"}, outcome);
  EXPECT_NEAR(value_at(slow, "optimum", 0), 5.714, 0.001);
  EXPECT_THAT(slow.notes.front(), HasSubstr("B = 10 Gbit/s"));
  for (const FigureRow& row : quick_outcome(byteps_12(), quick_with({"workers=4"})).rows) {
    EXPECT_TRUE(row.unit != "%" || row.here <= 100) << row.series << " " << row.x;
  }
}

TEST(FigureSettings, Switchml7HasTheBinsOfItsScenario) {
  PointOutcome outcome;
  outcome.result.timeline = {5, 6, 7};
  const FigureOutcome figure = outcome_with(switchml_7(), {"timeline.bin_ms=2"}, outcome);
  EXPECT_EQ(value_at(figure, "loss 0 %", 0), 5);
  EXPECT_EQ(value_at(figure, "loss 0 %", 2), 6);
  EXPECT_EQ(value_at(figure, "loss 0 %", 4), 7);
  EXPECT_EQ(figure.plots.at(0).y_label, "packets in 2 ms");
}

TEST(FigureSettings, PermanentHasThePauseOfItsScenario) {
  PointOutcome outcome;
  for (const int ms : {100, 100, 110, 90, 200, 50}) {
    outcome.result.iterations.push_back(milliseconds(ms));
  }
  // From 300 to 500 ms. Iterations end at 310 and 400 meanwhile; the next one ends at 600.
  const FigureOutcome figure = outcome_with(permanent(), {"straggler.pause_for_ms=200"}, outcome);
  EXPECT_DOUBLE_EQ(value_at(figure, "waiting-switch: while it stands still", 650), 100);
  EXPECT_DOUBLE_EQ(value_at(figure, "waiting-switch: as it goes on", 650), 200);
  EXPECT_DOUBLE_EQ(value_at(figure, "waiting-switch: afterwards", 650), 50);
  EXPECT_EQ(figure.plots.at(0).title, "A worker stands still for 200 ms");
}

}  // namespace
}  // namespace tributary::lab
