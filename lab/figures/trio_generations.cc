// SPDX-License-Identifier: Apache-2.0
// The throughput of three programs over the generations of Trio's chipset: a prediction. The paper
// measures generation 5 alone, and states the PPEs of generations 1 and 6 (§8).
#include <fmt/format.h>

#include <array>
#include <optional>

#include "engine/model/egress.h"
#include "engine/model/parameters.h"
#include "lab/figures/figure.h"
#include "programs/rate_prediction.h"

namespace tributary::lab {
namespace {

constexpr uint32_t kGenerations = 6;
constexpr uint32_t kWorkers = 4;       ///< Source: Trio paper §6.3.
constexpr uint32_t kGradients = 1024;  ///< Source: Trio paper §6.3.
constexpr uint32_t kWindow = 1024;
constexpr uint32_t kWindowQuick = 64;
constexpr uint32_t kWindowsInARun = 8;
constexpr uint32_t kWindowsInARunQuick = 2;
constexpr uint32_t kBytesOfGradient = 4;
constexpr std::array<const char*, 2> kPrograms{"filter", "telemetry"};
constexpr uint32_t kPackets = 200'000;
constexpr uint32_t kPacketsQuick = 10'000;

/// Generations whose bandwidth is stated; engine/model/parameters.cc has the sources.
constexpr std::array<uint32_t, 3> kStated{1, 5, 6};

/// Returns the chip of a generation, with its egress side and ports.
engine::Parameters chip_of(uint32_t generation) {
  return engine::with_egress(*engine::preset(generation));
}

uint64_t blocks_of(const FigureOptions& options) {
  const uint32_t window = options.quick ? kWindowQuick : kWindow;
  return uint64_t{options.count_of(kWindowsInARun, kWindowsInARunQuick)} * window;
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (uint32_t generation = 1; generation <= kGenerations; generation++) {
    Scenario scenario;
    scenario.backend = Backend::kTrioMlWait;
    scenario.workers = kWorkers;
    scenario.iterations = 1;
    scenario.window = options.quick ? kWindowQuick : kWindow;
    scenario.gradients = kGradients;
    scenario.pfe.generation = generation;
    // The workers are at one PFE, so nothing crosses the fabric.
    const engine::Parameters chip = chip_of(generation);
    scenario.pfe.overrides = {
        {"port_gbit_per_s", static_cast<double>(chip.port_gbit_per_s)},
        {"egress_instructions", static_cast<double>(chip.egress_instructions)}};
    scenario.model = {.kind = Model::kCustom,
                      .bucket_bytes = {blocks_of(options) * kGradients * kBytesOfGradient}};
    made.push_back(
        figure_point(options, fmt::format("generation={}", generation), std::move(scenario)));
  }
  return all_or_error(std::move(made));
}

/// Adds rates to the table and to the plot.
class Rates {
 public:
  Rates(const FigureOptions& options, FigureOutcome& figure, LinePlot& plot)
      : options_(options), figure_(figure), plot_(plot) {}

  void add(const std::string& series, uint32_t generation, double mpps, std::string limit) {
    FigureRow row = figure_row(options_, "trio-generations", series, generation, mpps, "Mpps");
    row.explained = std::move(limit);
    figure_.rows.push_back(std::move(row));
    if (plot_.series.empty() || plot_.series.back().name != series) {
      plot_.series.push_back({.name = series, .points = {}});
    }
    plot_.series.back().points.push_back({static_cast<double>(generation), mpps});
  }

 private:
  const FigureOptions& options_;
  FigureOutcome& figure_;
  LinePlot& plot_;
};

void add_program(const FigureOptions& options, const char* name, FigureOutcome& figure,
                 Rates& rates) {
  traffic::Config traffic;
  traffic.seed = options.seed;
  traffic.packets = options.quick ? kPacketsQuick : kPackets;
  traffic.background.rate = 5e6;
  for (uint32_t generation = 1; generation <= kGenerations; generation++) {
    const auto limit =
        programs::predict_rate(*programs::find_program(name), chip_of(generation), traffic);
    if (!limit) {
      figure.notes.push_back(
          fmt::format("{}, generation {}: {}", name, generation, limit.error().text));
      continue;
    }
    rates.add(name, generation, limit->packets_per_s / 1e6, "limit: " + limit->resource);
  }
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  LinePlot plot{.title = "Programs over the generations of Trio (prediction)",
                .x_label = "generation of the chipset",
                .y_label = "packets (10^6 a second, one PFE)",
                .series = {},
                .y_scale = PlotScale::kLog10};
  Rates rates(options, figure, plot);
  for (const char* name : kPrograms) add_program(options, name, figure, rates);
  for (size_t i = 0; i < points.size(); i++) {
    const Scenario& scenario = points[i].scenario;
    const double packets =
        gradients_sent(scenario) / scenario.gradients * scenario.workers * scenario.iterations;
    const double mpps = value_of(
        outcomes[i], [packets](const RunResult& run) { return packets / as_us(run.total); });
    rates.add("Trio-ML, 1024 gradients", static_cast<uint32_t>(i + 1), mpps,
              outcomes[i].result.bottleneck);
  }
  PlotSeries stated{.name = "ports, smallest frames (stated)", .points = {}, .marks_only = true};
  for (const uint32_t generation : kStated) {
    const double bits_per_us = chip_of(generation).port_gbit_per_s * 1e3;
    stated.points.push_back(
        {static_cast<double>(generation), bits_per_us / 8 / engine::kCableBytesMin});
  }
  plot.series.push_back(std::move(stated));
  figure.plots = {std::move(plot)};
  figure.notes.insert(
      figure.notes.end(),
      {"A prediction. Stated are the PPEs of generations 1 and 6 and the RMW engines of generation "
       "5; "
       "all other counts are assumed, and the latencies are calibrated for generation 5 "
       "(docs/model.md).",
       "filter and telemetry: a fifth of the flows is IPv6, and packets have the sizes of "
       "generated traffic. Every packet crosses the fabric and has a second pass through a PPE on "
       "its way out: five instructions, assumed. The rest of the standard forwarding code, which "
       "the model has as latency, would lower the rates.",
       "Bandwidths of ports and fabric: stated for generations 1, 5 and 6 (ports) and 1 and 5 "
       "(fabric), otherwise assumed. Trio-ML's workers are at one PFE, so its results cross no "
       "fabric."});
  return figure;
}

}  // namespace

Figure trio_generations() {
  return {.name = "trio-generations",
          .description = "rates of filter, telemetry and Trio-ML by generation: a prediction",
          .x_name = "generation",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
