// SPDX-License-Identifier: Apache-2.0
// Figure 9 of the SwitchML paper: the time of an aggregation and a packet's round trip, over the
// size of the pool, at 100 Gbit/s (Appendix C).
#include <fmt/format.h>

#include <array>

#include "lab/figures/switchml.h"

namespace tributary::lab {
namespace {

constexpr std::array<uint32_t, 8> kPools{32, 64, 128, 256, 512, 1024, 2048, 4096};
constexpr std::array<uint32_t, 3> kPoolsQuick{32, 128, 512};
constexpr uint32_t kGbps = 100;   ///< Source: the figure's caption.
constexpr uint32_t kWorkers = 8;  ///< Source: §6, "By default".
/// As in Figure 3, because the size matters little (§6.1).
constexpr uint64_t kTensorBytes = 25'000'000;
constexpr uint64_t kTensorBytesQuick = 2'000'000;
constexpr Backend kBackend = Backend::kSwitchml256;

std::span<const uint32_t> pools(const FigureOptions& options) {
  if (options.quick) return kPoolsQuick;
  return kPools;
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const uint32_t pool : pools(options)) {
    made.push_back(
        tensor_point(options, {.backend = kBackend,
                               .workers = kWorkers,
                               .gbps = kGbps,
                               .pool = pool,
                               .tensor_bytes = options.quick ? kTensorBytesQuick : kTensorBytes,
                               .iterations = options.count_of(1)}));
  }
  return all_or_error(std::move(made));
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  PlotSeries times{.name = name_of(kBackend), .points = {}};
  PlotSeries trips{.name = name_of(kBackend), .points = {}};
  for (size_t i = 0; i < outcomes.size(); i++) {
    const double pool = pools(options)[i];
    const double ms = tensor_ms(outcomes[i]);
    const double trip_us = as_us(outcomes[i].result.block_latency.mean);
    const auto row = [&](const char* series, double here, const char* unit) {
      figure.rows.push_back(figure_row(options, "switchml-9", series, pool, here, unit));
    };
    row("time", ms, "ms");
    row("round trip", trip_us, "us");
    times.points.push_back({pool, ms});
    trips.points.push_back({pool, trip_us});
  }
  const auto plot = [](const char* of, const char* unit, PlotSeries series) {
    LinePlot made = switchml_plot(fmt::format("SwitchML Figure 9: {}", of), "pool (slots)", unit,
                                  PlotScale::kLog2);
    made.series = {std::move(series)};
    return made;
  };
  figure.plots = {plot("time of an aggregation", "ms", std::move(times)),
                  plot("round trip of a packet", "us", std::move(trips))};
  figure.notes = {
      "The paper takes 512 slots at 100 Gbit/s: the next power of two of the bandwidth-delay "
      "product over a packet's size, with its hosts' delays (Appendix C)."};
  return figure;
}

}  // namespace

Figure switchml_9() {
  return {.name = "switchml-9",
          .description = "pool size: time of an aggregation and round trip at 100 Gbit/s",
          .x_name = "pool",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
