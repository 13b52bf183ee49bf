// SPDX-License-Identifier: Apache-2.0
// Figure 15 of the Trio paper: the time of a contribution in a PFE, and the resulting rate, over
// the number of gradients in a packet. Four servers at one PFE, window 1 (§6.3).
#include <fmt/format.h>

#include <array>

#include "lab/figures/figure.h"

namespace tributary::lab {
namespace {

/// Blocks of a server. The paper sends 10,000 and repeats that 20 times. Here nothing varies from
/// run to run, so fewer blocks give the same average.
constexpr uint32_t kBlocks = 1'000;
constexpr uint32_t kBlocksQuick = 50;
constexpr uint32_t kBytesOfGradient = 4;
constexpr uint32_t kWorkers = 4;  ///< Source: Trio paper §6.3.

struct PaperPoint {
  uint32_t gradients;
  double latency_us;  ///< 0 where the text gives none.
};
/// Source: Trio paper §6.3, "Aggregation latency".
constexpr std::array<PaperPoint, 5> kPaper{{{64, 30}, {128, 0}, {256, 0}, {512, 0}, {1024, 200}}};

Result<std::vector<Point>> points(const FigureOptions& options) {
  const uint32_t blocks = options.count_of(kBlocks, kBlocksQuick);
  std::vector<Result<Point>> made;
  for (const PaperPoint& paper : kPaper) {
    Scenario scenario;
    scenario.backend = Backend::kTrioMlWait;
    scenario.workers = kWorkers;
    scenario.window = 1;
    scenario.iterations = 1;
    scenario.gradients = paper.gradients;
    scenario.model = {.kind = Model::kCustom,
                      .bucket_bytes = {uint64_t{blocks} * paper.gradients * kBytesOfGradient}};
    made.push_back(
        figure_point(options, fmt::format("gradients={}", paper.gradients), std::move(scenario)));
  }
  return all_or_error(std::move(made));
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  PlotSeries latency{.name = "trio-ml", .points = {}};
  PlotSeries rate{.name = "trio-ml", .points = {}};
  PlotSeries paper_latency{.name = "paper", .points = {}, .marks_only = true};
  PlotSeries paper_rate = paper_latency;
  for (size_t i = 0; i < kPaper.size(); i++) {
    const double x = kPaper[i].gradients;
    const double us = value_of(outcomes[i], [](const RunResult& run) {
      return as_us(run.aggregators.at(0).latency.mean);
    });
    FigureRow row{.figure = "trio-15",
                  .series = "latency",
                  .x = x,
                  .here = us,
                  .unit = "us",
                  .seed = options.seed};
    FigureRow rate_row{.figure = "trio-15",
                       .series = "rate",
                       .x = x,
                       .here = x / us,
                       .unit = "gradients/us",
                       .seed = options.seed};
    if (kPaper[i].latency_us > 0) {
      row.paper = kPaper[i].latency_us;
      rate_row.paper = x / kPaper[i].latency_us;  // How the paper defines its rate.
      paper_latency.points.push_back({x, *row.paper});
      paper_rate.points.push_back({x, *rate_row.paper});
    }
    latency.points.push_back({x, us});
    rate.points.push_back({x, x / us});
    figure.rows.push_back(row);
    figure.rows.push_back(rate_row);
  }
  figure.notes = {
      "64 and 1024 gradients are what the model's assumed numbers were calibrated with; the others "
      "are predicted.",
      "The paper states only these two values in its text."};
  const LinePlot plot{.title = "Trio Figure 15: time of a contribution in one PFE",
                      .x_label = "gradients a packet",
                      .y_label = "mean latency (us)",
                      .series = {latency, paper_latency},
                      .x_scale = PlotScale::kLog2,
                      .y_from_zero = true};
  LinePlot rate_plot = plot;
  rate_plot.title = "Trio Figure 15: aggregation rate (gradients over latency)";
  rate_plot.y_label = "gradients a microsecond";
  rate_plot.series = {rate, paper_rate};
  figure.plots = {plot, rate_plot};
  return figure;
}

}  // namespace

Figure trio_15() {
  return {
      .name = "trio-15",
      .description = "latency and rate of one PFE over gradients a packet; --iterations: blocks",
      .x_name = "gradients",
      .points = points,
      .finish = finish};
}

}  // namespace tributary::lab
