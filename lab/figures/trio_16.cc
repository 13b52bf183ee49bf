// SPDX-License-Identifier: Apache-2.0
// Figure 16 of the Trio paper: latency and throughput of a PFE over the window, for 512 and 1024
// gradients a packet. Four servers at one PFE (§6.3).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lab/figures/figure.h"

namespace tributary::lab {
namespace {

constexpr std::array<uint32_t, 2> kGradients{512, 1024};
constexpr std::array<uint32_t, 7> kWindows{1, 4, 16, 64, 256, 1024, 4096};
constexpr std::array<uint32_t, 3> kWindowsQuick{1, 16, 256};
constexpr uint32_t kWorkers = 4;  ///< Source: Trio paper §6.3.
constexpr uint32_t kBytesOfGradient = 4;
/// Source: Trio paper §6.3: the bound of a PFE's adders, in Gadd/s.
constexpr double kPaperMost = 6;

/// Windows that a server sends: so many that the start and the end count little.
constexpr uint32_t kWindowsInARun = 8;
constexpr uint32_t kBlocksMin = 256;
constexpr uint32_t kWindowsInARunQuick = 2;
constexpr uint32_t kBlocksMinQuick = 32;

std::span<const uint32_t> windows(const FigureOptions& options) {
  if (options.quick) return kWindowsQuick;
  return kWindows;
}

uint64_t blocks_of(const FigureOptions& options, uint32_t window) {
  const uint64_t rounds = options.count_of(kWindowsInARun, kWindowsInARunQuick);
  return std::max<uint64_t>(rounds * window, options.quick ? kBlocksMinQuick : kBlocksMin);
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const uint32_t gradients : kGradients) {
    for (const uint32_t window : windows(options)) {
      Scenario scenario;
      scenario.backend = Backend::kTrioMlWait;
      scenario.workers = kWorkers;
      scenario.iterations = 1;
      scenario.window = window;
      scenario.gradients = gradients;
      scenario.model = {
          .kind = Model::kCustom,
          .bucket_bytes = {blocks_of(options, window) * gradients * kBytesOfGradient}};
      made.push_back(figure_point(options, fmt::format("gradients={} window={}", gradients, window),
                                  std::move(scenario)));
    }
  }
  return all_or_error(std::move(made));
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  LinePlot latency{.title = "Trio Figure 16(a): latency over the window",
                   .x_label = "window (packets of each server)",
                   .y_label = "mean latency in the PFE (us)",
                   .series = {},
                   .x_scale = PlotScale::kLog2,
                   .y_scale = PlotScale::kLog10};
  LinePlot throughput = latency;
  throughput.title = "Trio Figure 16(b): throughput over the window";
  throughput.y_label = "sums (10^9 gradients of all servers a second)";
  throughput.y_scale = PlotScale::kLinear;
  throughput.y_from_zero = true;
  const std::span<const uint32_t> all = windows(options);
  for (size_t i = 0; i < points.size(); i++) {
    const uint32_t gradients = kGradients[i / all.size()];
    const uint32_t window = all[i % all.size()];
    const std::string name = fmt::format("Trio-ML-{}", gradients);
    const double us = value_of(outcomes[i], [](const RunResult& run) {
      return as_us(run.aggregators.at(0).latency.mean);
    });
    // Every gradient of every server is one add (Trio paper §6.3).
    const Scenario& scenario = points[i].scenario;
    const double adds = gradients_sent(scenario) * scenario.workers * scenario.iterations;
    const double adds_per_ns =
        value_of(outcomes[i], [adds](const RunResult& run) { return adds / as_ns(run.total); });
    figure.rows.push_back({.figure = "trio-16",
                           .series = name + " latency",
                           .x = static_cast<double>(window),
                           .here = us,
                           .unit = "us",
                           .seed = options.seed});
    figure.rows.push_back({.figure = "trio-16",
                           .series = name + " throughput",
                           .x = static_cast<double>(window),
                           .here = adds_per_ns,
                           .unit = "Gadd/s",
                           .seed = options.seed});
    if (i % all.size() == 0) {
      latency.series.push_back({.name = name, .points = {}});
      throughput.series.push_back({.name = name, .points = {}});
    }
    latency.series.back().points.push_back({static_cast<double>(window), us});
    throughput.series.back().points.push_back({static_cast<double>(window), adds_per_ns});
  }
  throughput.series.push_back({.name = fmt::format("paper: at most {} Gadd/s", kPaperMost),
                               .points = {{static_cast<double>(all.front()), kPaperMost},
                                          {static_cast<double>(all.back()), kPaperMost}},
                               .reference = true});
  figure.notes = {
      "The paper gives no values of this figure in its text; its bound for a PFE is 6 Gadd/s, and "
      "it finds window 4096 a good balance.",
      "At the largest windows: " + outcomes.back().result.bottleneck};
  if (outcomes.back().failed) figure.notes.pop_back();
  figure.plots = {latency, throughput};
  return figure;
}

}  // namespace

Figure trio_16() {
  return {.name = "trio-16",
          .description = "latency and throughput of one PFE over the window; --iterations: windows",
          .x_name = "window",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
