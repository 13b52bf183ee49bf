// SPDX-License-Identifier: Apache-2.0
/// @file
/// Repetitions of a figure's cells: the same scenario with several seeds, and statistics of them.
///
/// Model:   A cell is a scenario and its repetitions. Repetition i of a block has seed
///          options.seed + first + i. Cells that are compared share a block, so that they meet the
///          same stragglers; independent parts of a figure have blocks of their own.
/// Errors:  add_cell() adds the refusal of its scenario.
/// Threads: None; pure functions.
/// Tests:   tests/lab/figures/repetition_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lab/figures/figure.h"
#include "lab/report/sample.h"

namespace tributary::lab {

/// Repetitions of a figure that involves chance. With 20, the standard error is a quarter of the
/// standard deviation.
inline constexpr uint32_t kSeeds = 20;
inline constexpr uint32_t kSeedsQuick = 2;

/// Returns the number of repetitions of each cell.
[[nodiscard]] uint32_t seeds_of(const FigureOptions& options);
/// Returns "Means over 20 seeds", or "One seed".
[[nodiscard]] std::string seeds_text(const FigureOptions& options);

/// Returns the options of the first repetition of a block.
[[nodiscard]] FigureOptions first_of(FigureOptions options, uint32_t block);
/// Returns the options of the first repetitions of a block, at most `seeds` of them.
[[nodiscard]] FigureOptions first_of(const FigureOptions& options, uint32_t block, uint32_t seeds);

/// Adds a point for each repetition of a cell, labelled "LABEL, seed N".
/// @param block Number of the cell's block of seeds.
/// @param prepare Changes each point, for example its `run`; may be empty.
void add_cell(std::vector<Result<Point>>& made, const FigureOptions& options,
              const std::string& label, const Scenario& scenario, uint32_t block,
              const std::function<void(Point&)>& prepare = {});
/// Adds one point of a scenario without chance: a cell of one.
void add_point(std::vector<Result<Point>>& made, const FigureOptions& options,
               const std::string& label, const Scenario& scenario);

/// Cuts outcomes into cells, in the order in which add_cell() made them.
class CellReader {
 public:
  CellReader(const FigureOptions& options, std::span<const PointOutcome> outcomes)
      : seeds_(seeds_of(options)), left_(outcomes) {}
  /// Returns the repetitions of the next cell. @pre There is one.
  std::span<const PointOutcome> next() { return take(seeds_); }
  /// Returns the next cell, which add_cell() made with these options.
  std::span<const PointOutcome> next(const FigureOptions& options) {
    return take(seeds_of(options));
  }
  /// Returns the next cell, which add_point() made.
  std::span<const PointOutcome> next_point() { return take(1); }

 private:
  std::span<const PointOutcome> take(uint32_t count);

  const uint32_t seeds_;
  std::span<const PointOutcome> left_;
};

using Cell = std::span<const PointOutcome>;
using CellValue = std::function<double(const PointOutcome&)>;

/// Returns the mean iteration in ms.
[[nodiscard]] double iteration_ms(const PointOutcome& outcome);

/// Returns statistics over the repetitions that did not fail; not numbers if all failed.
[[nodiscard]] Sample sample_over(Cell cell, const CellValue& value);
/// Returns statistics of the ratio of two cells' values, repetition by repetition. A cell of one is
/// compared with every repetition. A pair with a failed run is left out.
[[nodiscard]] Sample ratio_over(Cell numerator, Cell denominator, const CellValue& value);
/// Returns the means of the cell's shares, over the repetitions that did not fail.
[[nodiscard]] BlockShares shares_over(Cell cell);
/// Returns in how many runs a worker left the job: "16 of 20 runs".
[[nodiscard]] std::string dropouts_text(const BlockShares& shares);
/// Adds a note that names the rows with runs in which a worker left the job, if there are any.
void add_dropout_note(FigureOutcome& figure);

/// Returns a row with the sample's mean; the row of a single value has no sample.
[[nodiscard]] FigureRow sample_row(const FigureOptions& options, const char* figure,
                                   std::string series, double x, const Sample& sample,
                                   const char* unit);
/// Returns a point whose error is the sample's standard error.
[[nodiscard]] PlotPoint sample_point(double x, const Sample& sample);

}  // namespace tributary::lab
