// SPDX-License-Identifier: Apache-2.0
// Figure 9 of the SwitchML paper: the time of an aggregation and a packet's round trip, over the
// size of the pool, at 100 Gbit/s (Appendix C).
#include <fmt/format.h>

#include <algorithm>
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

struct Variation {
  const char* name;
  bool rdma = false;
  Duration more_delay = {};
};
/// The last one stands for delays of the paper's hosts that the model lacks: queues between cores
/// and NIC, and batches in either direction. Assumed: a round trip of 31 us, between those of 256
/// and of 512 packets in flight at 100 Gbit/s (23 and 45 us).
constexpr std::array<Variation, 3> kVariations{
    {{"DPDK"}, {"RDMA", /*rdma=*/true}, {"DPDK, 24 us farther", /*rdma=*/false, microseconds(24)}}};

std::span<const uint32_t> pools(const FigureOptions& options) {
  if (options.quick) return kPoolsQuick;
  return kPools;
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const Variation& variation : kVariations) {
    for (const uint32_t pool : pools(options)) {
      made.push_back(
          tensor_point(options, {.backend = kBackend,
                                 .workers = kWorkers,
                                 .gbps = kGbps,
                                 .pool = pool,
                                 .tensor_bytes = options.quick ? kTensorBytesQuick : kTensorBytes,
                                 .iterations = options.count_of(1),
                                 .rdma = variation.rdma,
                                 .more_delay = variation.more_delay}));
    }
  }
  return all_or_error(std::move(made));
}

/// Adds a line at the paper's number of slots, as high as the series.
void add_paper_pool(LinePlot& plot) {
  std::vector<double> ys;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) ys.push_back(point.y);
  }
  const auto [low, high] = std::minmax_element(ys.begin(), ys.end());
  const double pool = paper_pool(kGbps);
  plot.series.push_back({.name = fmt::format("paper: {} slots", pool),
                         .points = {{pool, *low}, {pool, *high}},
                         .reference = true});
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  const auto plot = [](const char* of, const char* unit) {
    return switchml_plot(fmt::format("SwitchML Figure 9: {}", of), "pool (slots)", unit,
                         PlotScale::kLog2);
  };
  figure.plots = {plot("time of an aggregation", "ms"), plot("round trip of a packet", "us")};
  size_t next = 0;
  for (const Variation& variation : kVariations) {
    const std::string& backend = name_of(points[next].scenario.backend);
    PlotSeries times{.name = fmt::format("{}, {}", backend, variation.name), .points = {}};
    PlotSeries trips = times;
    for (const double pool : pools(options)) {
      const PointOutcome& outcome = outcomes[next++];
      const double ms = tensor_ms(outcome);
      const double trip_us =
          value_of(outcome, [](const RunResult& run) { return as_us(run.block_latency.mean); });
      const auto row = [&](const char* series, double here, const char* unit) {
        figure.rows.push_back(figure_row(options, "switchml-9",
                                         fmt::format("{}: {}", variation.name, series), pool, here,
                                         unit));
      };
      row("time", ms, "ms");
      row("round trip", trip_us, "us");
      times.points.push_back({pool, ms});
      trips.points.push_back({pool, trip_us});
    }
    figure.plots[0].series.push_back(std::move(times));
    figure.plots[1].series.push_back(std::move(trips));
  }
  for (LinePlot& made : figure.plots) add_paper_pool(made);
  figure.notes = {
      "The paper takes 512 slots at 100 Gbit/s: the next power of two of the bandwidth-delay "
      "product over a packet's size, with its hosts' delays (Appendix C).",
      "DPDK: the hosts of all figures. RDMA: hosts that cost 5 ns a packet. 24 us farther: a round "
      "trip with delays of hosts that the model lacks; 512 slots are the knee then."};
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
