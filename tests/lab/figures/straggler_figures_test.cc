// SPDX-License-Identifier: Apache-2.0
// Method: rows, explanations and notes of Figures 12 and 13 of the Trio paper, from outcomes
// written by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/sweep/point.h"

namespace tributary::lab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns an outcome in which the accuracy of 100 % is there from the first iteration.
PointOutcome outcome_of(int iteration_ms, uint32_t degraded_percent) {
  PointOutcome outcome;
  outcome.result.mean_iteration = milliseconds(iteration_ms);
  outcome.result.blocks = 100;
  outcome.result.degraded_blocks = degraded_percent;
  for (int step = 0; step < 20; step++) {
    outcome.accuracy.push_back({.at = milliseconds(iteration_ms) * (step + 1), .accuracy = 1});
  }
  return outcome;
}

/// Returns the figure where Trio-ML is faster. 97 % of its sums lack a worker if workers compute,
/// and 55 % if they skip.
FigureOutcome figure_of(const Figure& figure, const FigureOptions& options) {
  const auto points = figure.points(options);
  EXPECT_TRUE(points);
  std::vector<PointOutcome> outcomes;
  for (const Point& point : *points) {
    const bool computes = point.scenario.mitigation.catch_up == CatchUp::kCompute;
    const bool is_trio = point.scenario.backend == Backend::kTrioMl;
    outcomes.push_back(is_trio ? outcome_of(150, computes ? 97 : 55) : outcome_of(160, 0));
  }
  return figure.finish(options, *points, outcomes);
}

/// Returns the seed of the first point whose label begins with `start`; 0 if there is none.
uint64_t first_seed(const std::vector<Point>& points, const std::string& start) {
  const auto found = std::find_if(points.begin(), points.end(), [&](const Point& point) {
    return point.label.starts_with(start);
  });
  return found == points.end() ? 0 : found->scenario.seed;
}

/// Returns the first seed of the block of the row's network. @param seeds Of a block; the first
/// block begins with 5.
uint64_t block_seed(const FigureRow& row, uint64_t seeds) {
  if (row.series.starts_with("resnet50")) return 5;
  return row.series.starts_with("densenet161") ? 5 + seeds : 5 + 2 * seeds;
}

TEST(Trio13, RowsHaveTheSeedOfTheirFirstRun) {
  const FigureOptions options{.seed = 5, .seeds = 2};
  const auto points = trio_13().points(options);
  for (const FigureRow& row : figure_of(trio_13(), options).rows) {
    const bool is_calm = row.x == 0 || row.series.ends_with("ideal");
    EXPECT_EQ(row.seed, is_calm ? 5 : block_seed(row, 2)) << row.series << " " << row.x;
    if (row.unit != "ms") continue;
    const double percent = row.series.ends_with("ideal") ? 0 : row.x;
    EXPECT_EQ(row.seed, first_seed(*points, fmt::format("{} p={}%", row.series, percent)))
        << row.series << " " << row.x;
  }
}

TEST(Trio12, RowsHaveTheSeedOfTheirFirstRun) {
  const FigureOptions options{.seed = 5, .seeds = 6};  // The favourable settings have 5 of them.
  const auto points = trio_12().points(options);
  for (const FigureRow& row : figure_of(trio_12(), options).rows) {
    EXPECT_EQ(row.seed, block_seed(row, 6)) << row.series;
    if (row.unit != "s") continue;
    EXPECT_EQ(row.seed, first_seed(*points, row.series + ", seed ")) << row.series;
  }
}

TEST(Trio13, NoteNamesTheIterationsOfEachSample) {
  EXPECT_THAT(figure_of(trio_13(), {.seeds = 1}).notes.back(),
              HasSubstr("samples of 100 iterations (paper: 100). Rows with 700 ms of computation "
                        "have samples of 20 iterations"));
  EXPECT_THAT(figure_of(trio_13(), {.seeds = 1, .quick = true}).notes.back(),
              AllOf(HasSubstr("samples of 4 iterations (paper: 100)"), Not(HasSubstr("700 ms"))));
}

// 97 % of the sums lack a worker, but a server falls asleep in 1 - 0.84^3 = 41 % of the iterations.
TEST(StragglerFigures, SleepIsNotTheCauseOfMoreTimeoutsThanItMakes) {
  for (const Figure& figure : {trio_12(), trio_13()}) {
    uint32_t explained = 0;
    for (const FigureRow& row : figure_of(figure, {.seeds = 1}).rows) {
      // The favourable settings have a cause of their own.
      if (row.explained.empty() || row.series.find("700 ms") != std::string::npos) continue;
      explained++;
      if (row.series.find("compute") == std::string::npos) {
        EXPECT_THAT(row.explained, HasSubstr("While a server sleeps, each")) << row.series;
        continue;
      }
      EXPECT_THAT(row.explained,
                  AllOf(Not(HasSubstr("While a server sleeps")),
                        HasSubstr("97 % of the sums lack a worker, while one falls asleep in 41 %"),
                        HasSubstr("As long as it is late, each")))
          << row.series;
    }
    EXPECT_EQ(explained, 3U * 4) << figure.name;  // Both readings, both ways to catch up.
  }
}

TEST(StragglerFigures, OnlyThePapersProbabilityHasItsValue) {
  for (const Figure& figure : {trio_12(), trio_13()}) {
    uint32_t rows = 0;
    for (const FigureRow& row : figure_of(figure, {.seeds = 1}).rows) {
      if (row.series.find("700 ms") == std::string::npos) continue;
      rows++;
      EXPECT_EQ(row.paper.has_value(), row.series.find("p = 20 %") == std::string::npos)
          << row.series;
    }
    EXPECT_EQ(rows, figure.name == "trio-12" ? 6U : 8U);
  }
}

// With the same sleeper always, p = 16 % allows 1.60. The paper's 1.80 is more than a tenth above
// it.
TEST(StragglerFigures, FavourableSettingsAreExplainedLikeOtherRows) {
  for (const Figure& figure : {trio_12(), trio_13()}) {
    uint32_t rows = 0;
    for (const FigureRow& row : figure_of(figure, {.seeds = 1}).rows) {
      if (row.series.find("700 ms") == std::string::npos || !row.paper) continue;
      rows++;  // 160 / 150 is far below each of the paper's values.
      EXPECT_THAT(row.explained, HasSubstr("p = 16 % allows 1.60 on average")) << row.series;
      const bool has_other = figure.name == "trio-13" && row.series.starts_with("vgg11");
      EXPECT_EQ(row.explained.find("p = 20 % gives 1.067.") != std::string::npos, has_other)
          << row.explained;
    }
    EXPECT_EQ(rows, figure.name == "trio-12" ? 4U : 6U);
  }
}

TEST(StragglerFigures, RowsAndNotesNameRunsThatTheSleeperLeft) {
  const FigureOptions options{.seeds = 2};
  for (const Figure& figure : {trio_12(), trio_13(), trio_13_iteration()}) {
    const auto points = figure.points(options);
    ASSERT_TRUE(points);
    std::vector<PointOutcome> outcomes;
    for (const Point& point : *points) {
      const bool computes = point.scenario.mitigation.catch_up == CatchUp::kCompute;
      const bool is_trio = point.scenario.backend == Backend::kTrioMl;
      outcomes.push_back(is_trio ? outcome_of(150, 97) : outcome_of(160, 0));
      outcomes.back().result.workers.resize(6);
      // In one of the two runs of each cell.
      if (!is_trio || !computes || point.scenario.seed % 2 == 0) continue;
      outcomes.back().result.workers[0].iterations = 12;
      outcomes.back().result.workers[0].dropped_out = true;
    }
    const FigureOutcome made = figure.finish(options, *points, outcomes);
    for (const FigureRow& row : made.rows) {
      const bool computes = row.series.find("compute") != std::string::npos &&
                            row.series.find("skip") == std::string::npos;
      if (row.x == 0 || row.series.find("free") != std::string::npos) continue;
      ASSERT_TRUE(row.shares) << row.series;
      EXPECT_EQ(row.shares->dropped_out, computes ? 0.5 : 0) << figure.name << " " << row.series;
      if (!computes) continue;
      EXPECT_EQ(row.shares->dropout_iteration, 12);
      EXPECT_THAT(made.notes.back(), HasSubstr("\"" + row.series + "\"")) << row.series;
      if (row.explained.empty()) continue;
      EXPECT_THAT(row.explained, HasSubstr("1 of 2 runs")) << row.series;
    }
    EXPECT_THAT(made.notes.back(), HasSubstr("1 of 2 runs, after 12 iterations on average"));
    const RowTable table = table_of(made.rows, figure.x_name);
    EXPECT_EQ(table.lines[0].back(), "dropped out");
  }
}

TEST(Figure, CausesHaveErrorsAndNoRatioOfWhatThePaperLacks) {
  const SettingValue near{.setting = "less", .here = 1.59, .standard_error = 0.0362};
  const SettingValue other{
      .setting = "more", .here = 1.803, .standard_error = 0.039, .unlike_paper = "p = 20 %"};
  EXPECT_EQ(cause_with_settings("Why.", 1.8, std::vector{near, other}),
            "Why. Measured: less gives 1.59 ± 0.036, 0.88 of the paper's value; more gives 1.803 "
            "± 0.039. The paper's value would need about p = 20 %, which the paper does not have.");
  EXPECT_EQ(cause_with_settings("Why.", 1.8, std::vector{other}),
            "Why. Measured: more gives 1.803 ± 0.039. The paper does not have p = 20 %.");
  // 1.59 is within a tenth of 1.7.
  EXPECT_EQ(cause_with_settings("Why.", 1.7, std::vector{near, other}),
            "Why. Measured: less gives 1.59 ± 0.036, 0.94 of the paper's value; more gives 1.803 "
            "± 0.039.");
  EXPECT_EQ(cause_with_settings("Why.", 1.8, {}), "Why.");
}

}  // namespace
}  // namespace tributary::lab
