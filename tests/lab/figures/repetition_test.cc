// SPDX-License-Identifier: Apache-2.0
// Method: cells made and read by hand.
#include "lab/figures/repetition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tributary::lab {
namespace {

PointOutcome with_total(int64_t ms) {
  PointOutcome outcome;
  outcome.result.total = milliseconds(ms);
  return outcome;
}
double total_ms(const PointOutcome& outcome) { return as_ms(outcome.result.total); }

TEST(Repetition, BlocksHaveSeedsOfTheirOwn) {
  std::vector<Result<Point>> made;
  const FigureOptions options{.seed = 100, .seeds = 3};
  add_cell(made, options, "first", Scenario(), 0);
  add_cell(made, options, "second", Scenario(), 2);
  add_point(made, options, "third", Scenario());
  std::vector<uint64_t> seeds;
  for (const auto& point : made) seeds.push_back(point->scenario.seed);
  EXPECT_EQ(seeds, (std::vector<uint64_t>{100, 101, 102, 106, 107, 108, 100}));
  EXPECT_EQ(made[4]->label, "second, seed 107");
}

TEST(Repetition, OneSeedIsNoMean) {
  EXPECT_EQ(seeds_text({}), "Means over 20 seeds");
  EXPECT_EQ(seeds_text({.seeds = 1}), "One seed");
}

TEST(Repetition, CellsComeBackInOrder) {
  const std::vector<PointOutcome> outcomes{with_total(1), with_total(2), with_total(3),
                                           with_total(4), with_total(5)};
  CellReader cells({.seeds = 2}, outcomes);
  EXPECT_EQ(total_ms(cells.next_point()[0]), 1);
  const Cell second = cells.next();
  EXPECT_EQ(sample_over(second, total_ms).mean, 2.5);
  EXPECT_EQ(total_ms(cells.next()[1]), 5);
}

TEST(Repetition, RatiosPairRepetitions) {
  const std::vector<PointOutcome> over{with_total(2), with_total(8)};
  const std::vector<PointOutcome> under{with_total(1), with_total(2)};
  const Sample ratio = ratio_over(over, under, total_ms);
  EXPECT_EQ(ratio.low, 2);
  EXPECT_EQ(ratio.high, 4);
  EXPECT_EQ(ratio.mean, 3);  // Not 10 / 3, the ratio of the sums.
  EXPECT_EQ(ratio_over(over, Cell(under).first(1), total_ms).mean, 5);
}

TEST(Repetition, StatisticsLeaveOutFailedRepetitions) {
  std::vector<PointOutcome> cell{with_total(1), with_total(2), with_total(6)};
  const std::vector<PointOutcome> over{with_total(3), with_total(8), with_total(6)};
  cell[1].failed = true;
  cell[0].result.blocks = cell[1].result.blocks = cell[2].result.blocks = 10;
  cell[0].result.degraded_blocks = 4;
  cell[1].result.degraded_blocks = 9;
  EXPECT_EQ(sample_over(cell, total_ms).mean, 3.5);
  EXPECT_EQ(sample_over(cell, total_ms).count, 2);
  EXPECT_EQ(ratio_over(over, cell, total_ms).mean, 2);  // 3 / 1 and 6 / 6.
  EXPECT_DOUBLE_EQ(shares_over(cell).degraded, 0.2);
  const Cell failed = Cell(cell).subspan(1, 1);
  EXPECT_TRUE(std::isnan(sample_over(failed, total_ms).mean));
  EXPECT_TRUE(std::isnan(ratio_over(over, failed, total_ms).mean));
  EXPECT_TRUE(std::isnan(shares_over(failed).degraded));
  EXPECT_TRUE(std::isnan(shares_over(failed).dropped_out));
}

TEST(Repetition, SharesAreMeans) {
  std::vector<PointOutcome> cell(2);
  cell[0].result.blocks = cell[1].result.blocks = 10;
  cell[0].result.degraded_blocks = 4;
  cell[1].result.skipped_blocks = 2;
  const BlockShares shares = shares_over(cell);
  EXPECT_DOUBLE_EQ(shares.degraded, 0.2);
  EXPECT_DOUBLE_EQ(shares.skipped, 0.1);
}

/// Returns three runs. In two of them a worker left, after 7 and after 8 iterations.
std::vector<PointOutcome> with_dropouts() {
  std::vector<PointOutcome> cell(3);
  for (PointOutcome& outcome : cell) outcome.result.workers.resize(6);
  cell[0].result.workers[0].iterations = 7;
  cell[0].result.workers[0].dropped_out = true;
  cell[2].result.workers[5].iterations = 8;
  cell[2].result.workers[5].dropped_out = true;
  return cell;
}

TEST(Repetition, SharesCountRunsThatAWorkerLeft) {
  std::vector<PointOutcome> cell = with_dropouts();
  EXPECT_DOUBLE_EQ(shares_over(cell).dropped_out, 2.0 / 3);
  EXPECT_EQ(shares_over(cell).dropout_iteration, 7.5);
  EXPECT_EQ(dropouts_text(shares_over(cell)), "2 of 3 runs");
  cell[0].failed = true;
  EXPECT_EQ(shares_over(cell).dropped_out, 0.5);
  EXPECT_EQ(shares_over(Cell(cell).subspan(1, 1)).dropped_out, 0);
  EXPECT_TRUE(std::isnan(shares_over(Cell(cell).subspan(1, 1)).dropout_iteration));
}

TEST(Repetition, NoteNamesRowsWithRunsThatAWorkerLeft) {
  const std::vector<PointOutcome> cell = with_dropouts();
  FigureOutcome figure;
  figure.rows = {
      {.figure = "f", .series = "other", .x = 16, .shares = BlockShares()},
      {.figure = "f", .series = "time", .x = 16, .shares = shares_over(cell)},
      {.figure = "f", .series = "speed-up", .x = 16, .shares = shares_over(cell)},
      {.figure = "f", .series = "time", .x = 20, .shares = shares_over(Cell(cell).first(1))}};
  add_dropout_note(figure);
  ASSERT_EQ(figure.notes.size(), 1U);
  EXPECT_EQ(figure.notes[0],
            "In some runs a worker falls more windows behind than mitigation.history (64, where "
            "the figure sets no other) and leaves the job. The others train on, and all values are "
            "theirs (docs/trio-figures.md). Rows with such runs: \"time\" and \"speed-up\" at 16: "
            "2 of 3 runs, after 7.5 iterations on average; \"time\" at 20: 1 of 1 runs, after 7 "
            "iterations on average.");
  figure.rows.resize(1);
  figure.notes.clear();
  add_dropout_note(figure);
  EXPECT_TRUE(figure.notes.empty());
}

TEST(Repetition, SingleValuesHaveNoSample) {
  const std::vector<PointOutcome> one{with_total(7)};
  const FigureRow row = sample_row({}, "f", "s", 1, sample_over(one, total_ms), "ms");
  EXPECT_EQ(row.here, 7);
  EXPECT_FALSE(row.sample);
}

}  // namespace
}  // namespace tributary::lab
