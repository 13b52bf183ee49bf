// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/repetition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.h"

namespace tributary::lab {
namespace {

/// Returns whether repetition `i` has an outcome. A cell of one counts for every repetition.
bool has(Cell cell, size_t i) { return !cell[cell.size() == 1 ? 0 : i].failed; }

}  // namespace

uint32_t seeds_of(const FigureOptions& options) {
  if (options.seeds != 0) return options.seeds;
  return options.quick ? kSeedsQuick : kSeeds;
}

std::string seeds_text(const FigureOptions& options) {
  const uint32_t seeds = seeds_of(options);
  return seeds == 1 ? "One seed" : fmt::format("Means over {} seeds", seeds);
}

FigureOptions first_of(FigureOptions options, uint32_t block) {
  options.seed += uint64_t{block} * seeds_of(options);
  return options;
}

FigureOptions first_of(const FigureOptions& options, uint32_t block, uint32_t seeds) {
  FigureOptions first = first_of(options, block);
  first.seeds = std::min(seeds_of(options), seeds);
  return first;
}

void add_cell(std::vector<Result<Point>>& made, const FigureOptions& options,
              const std::string& label, const Scenario& scenario, uint32_t block,
              const std::function<void(Point&)>& prepare) {
  const uint32_t seeds = seeds_of(options);
  for (uint32_t i = 0; i < seeds; i++) {
    FigureOptions with_seed = options;
    with_seed.seed = options.seed + uint64_t{block} * seeds + i;
    auto point =
        figure_point(with_seed, fmt::format("{}, seed {}", label, with_seed.seed), scenario);
    if (point && prepare) prepare(*point);
    made.push_back(std::move(point));
  }
}

void add_point(std::vector<Result<Point>>& made, const FigureOptions& options,
               const std::string& label, const Scenario& scenario) {
  made.push_back(figure_point(options, label, scenario));
}

std::span<const PointOutcome> CellReader::take(uint32_t count) {
  TRIB_ASSERT(left_.size() >= count);
  const auto cell = left_.first(count);
  left_ = left_.subspan(count);
  return cell;
}

double iteration_ms(const PointOutcome& outcome) {
  return value_of(outcome, [](const RunResult& result) { return as_ms(result.mean_iteration); });
}

Sample sample_over(Cell cell, const CellValue& value) {
  std::vector<double> values;
  for (const PointOutcome& outcome : cell) {
    if (!outcome.failed) values.push_back(value(outcome));
  }
  return sample_of(values);
}

Sample ratio_over(Cell numerator, Cell denominator, const CellValue& value) {
  std::vector<double> over;
  std::vector<double> under;
  const auto of = [&](Cell cell, size_t i) { return value(cell[cell.size() == 1 ? 0 : i]); };
  for (size_t i = 0; i < std::max(numerator.size(), denominator.size()); i++) {
    if (!has(numerator, i) || !has(denominator, i)) continue;
    over.push_back(of(numerator, i));
    under.push_back(of(denominator, i));
  }
  return sample_of_ratio(over, under);
}

BlockShares shares_over(Cell cell) {
  BlockShares shares;
  const auto count = static_cast<double>(
      std::count_if(cell.begin(), cell.end(), [](const auto& outcome) { return !outcome.failed; }));
  if (count == 0) return {.degraded = NAN, .skipped = NAN, .missed = NAN, .dropped_out = NAN};
  shares.runs = static_cast<uint32_t>(count);
  uint32_t dropped_out = 0;        // Runs.
  std::vector<double> iterations;  // Of the workers that left.
  for (const PointOutcome& outcome : cell) {
    if (outcome.failed) continue;
    shares.degraded += outcome.result.degraded_fraction() / count;
    shares.skipped += outcome.result.skipped_fraction() / count;
    shares.missed += outcome.result.missed_fraction() / count;
    dropped_out += outcome.result.dropouts() > 0 ? 1 : 0;
    for (const WorkerResult& worker : outcome.result.workers) {
      if (worker.dropped_out) iterations.push_back(static_cast<double>(worker.iterations));
    }
  }
  shares.dropped_out = dropped_out / count;
  shares.dropout_iteration = sample_of(iterations).mean;
  return shares;
}

std::string dropouts_text(const BlockShares& shares) {
  return fmt::format("{:.0f} of {} runs", shares.dropped_out * shares.runs, shares.runs);
}

void add_dropout_note(FigureOutcome& figure) {
  // Rows that share their runs, such as a time and its speed-up, are named together.
  std::vector<std::pair<std::string, std::string>> all;  // The runs, and the rows' names.
  for (const FigureRow& row : figure.rows) {
    if (!row.shares || !(row.shares->dropped_out > 0)) continue;
    std::string runs =
        fmt::format("at {}: {}, after {} iterations on average", short_number(row.x),
                    dropouts_text(*row.shares), short_number(row.shares->dropout_iteration));
    const auto known =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == runs; });
    if (known == all.end()) {
      all.emplace_back(std::move(runs), fmt::format("\"{}\"", row.series));
    } else {
      known->second += fmt::format(" and \"{}\"", row.series);
    }
  }
  if (all.empty()) return;
  std::string note = fmt::format(
      "In some runs a worker falls more windows behind than mitigation.history ({}, where the "
      "figure sets no other) and leaves the job. The others train on, and all values are theirs "
      "(docs/trio-figures.md). Rows with such runs: ",
      MitigationSettings().history);
  for (size_t i = 0; i < all.size(); i++) {
    note += fmt::format("{}{} {}", i == 0 ? "" : "; ", all[i].second, all[i].first);
  }
  figure.notes.push_back(note + ".");
}

FigureRow sample_row(const FigureOptions& options, const char* figure, std::string series, double x,
                     const Sample& sample, const char* unit) {
  FigureRow row = figure_row(options, figure, std::move(series), x, sample.mean, unit);
  if (sample.count > 1) row.sample = sample;
  return row;
}

PlotPoint sample_point(double x, const Sample& sample) {
  return {.x = x, .y = sample.mean, .error = sample.standard_error};
}

}  // namespace tributary::lab
