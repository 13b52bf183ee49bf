// SPDX-License-Identifier: Apache-2.0
// Figure 3 of the SwitchML paper: elements aggregated a second over the number of workers, at 10
// and 100 Gbit/s (§6.1). The paper's text gives shares of the maximum, not values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "lab/figures/switchml.h"
#include "wire/switchml.h"

namespace tributary::lab {
namespace {

constexpr std::array<uint32_t, 2> kGbps{10, 100};
constexpr std::array<uint32_t, 3> kWorkers{4, 8, 16};
/// A quarter of the paper's 100 MB, because the size matters little (§6.1).
constexpr uint64_t kTensorBytes = 25'000'000;
constexpr uint64_t kTensorBytesQuick = 2'000'000;
/// Window of the systems other than SwitchML, in packets of 256. It covers their hops.
constexpr uint32_t kPeerWindow = 1024;

struct System {
  const char* name;
  Backend backend;
  uint32_t elements;
  uint32_t head_bytes;  ///< Bytes of the protocol's header.
  /// The line's share that the paper computes for such packets (§5 "Supporting large packets");
  /// none for other systems than SwitchML.
  std::optional<double> framing_share = {};
  bool rdma = false;
};
constexpr uint32_t kHead = wire::SwitchmlHeader::kBytes;
const std::array<System, 7> kSystems{
    {{"switchml-256", Backend::kSwitchml256, 256, kHead, 0.93},
     {"switchml-64", Backend::kSwitchml64, 64, kHead, 0.77},
     {"switchml-256 RDMA", Backend::kSwitchml256, 256, kHead, 0.93, /*rdma=*/true},
     {"switchml-64 RDMA", Backend::kSwitchml64, 64, kHead, 0.77, /*rdma=*/true},
     {"ps-dedicated", Backend::kPsDedicated, 256, kHead},
     {"ps-colocated", Backend::kPsColocated, 256, kHead},
     {"ring", Backend::kRing, 256, kHead}}};
constexpr size_t kSwitchmlSystems = 4;

/// Source: SwitchML paper §6.1, about Figure 3: RDMA with packets of 256 "is within 2% of the
/// maximum achievable goodput".
constexpr double kPaperLeast = 0.98;

/// Returns the least share of the maximum goodput that the paper measures. Its text has one for its
/// fastest variant only. DPDK hosts do not fill 100 Gbit/s; the text does not say how far they get.
std::optional<double> paper_least(const System& system, uint32_t gbps) {
  if (gbps > 10 && system.rdma && system.elements == 256) return kPaperLeast;
  return std::nullopt;
}

std::span<const System> systems(const FigureOptions& options) {
  return std::span(kSystems).first(options.quick ? kSwitchmlSystems : kSystems.size());
}

/// In the order of rates, then systems, then workers.
Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  const uint64_t bytes = options.quick ? kTensorBytesQuick : kTensorBytes;
  for (const uint32_t gbps : kGbps) {
    for (const System& system : systems(options)) {
      const bool is_switchml = system.framing_share.has_value();
      for (const uint32_t workers : kWorkers) {
        made.push_back(tensor_point(options, {.backend = system.backend,
                                              .workers = workers,
                                              .gbps = gbps,
                                              .pool = is_switchml ? paper_pool(gbps) : kPeerWindow,
                                              .tensor_bytes = bytes,
                                              .iterations = options.count_of(1),
                                              .rdma = system.rdma}));
      }
    }
  }
  return all_or_error(std::move(made));
}

bool has_series(const LinePlot& plot, const std::string& name) {
  return std::any_of(plot.series.begin(), plot.series.end(),
                     [&name](const PlotSeries& series) { return series.name == name; });
}

/// Adds the paper's values of the systems as lines, each once: systems with other hosts share some.
void add_paper(LinePlot& plot, const FigureOptions& options, uint32_t gbps) {
  const auto add = [&plot](std::string name, double goodput) {
    if (has_series(plot, name)) return;
    plot.series.push_back({.name = std::move(name),
                           .points = {{kWorkers.front(), goodput}, {kWorkers.back(), goodput}},
                           .reference = true});
  };
  for (const System& system : systems(options)) {
    if (system.framing_share) {
      add(fmt::format("paper, headers alone: {:.0f} % of the line, packets of {}",
                      100 * *system.framing_share, system.elements),
          *system.framing_share * gbps * 1e3 / 32);
    }
    if (const auto least = paper_least(system, gbps)) {
      add(fmt::format("paper: at least {:.0f} % of the most, {}", 100 * *least, system.name),
          *least * maximum_goodput(gbps, system.elements, system.head_bytes));
    }
  }
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  size_t next = 0;
  for (const uint32_t gbps : kGbps) {
    LinePlot plot = switchml_plot(fmt::format("SwitchML Figure 3: {} Gbit/s", gbps), "workers",
                                  "million elements a second");
    const auto row = [&](const std::string& series, double x, double here, const char* unit) {
      figure.rows.push_back(
          figure_row(options, "switchml-3", fmt::format("{}G {}", gbps, series), x, here, unit));
    };
    for (const System& system : systems(options)) {
      const double most = maximum_goodput(gbps, system.elements, system.head_bytes);
      const std::string name = system.name;
      PlotSeries line{.name = name, .points = {}};
      for (const uint32_t workers : kWorkers) {
        const double ms = tensor_ms(outcomes[next]);
        const double goodput = gradients_sent(points[next++].scenario) / (ms * 1e3);
        row(name, workers, goodput, "Melem/s");
        if (system.framing_share) {
          row(fmt::format("{} of the line", name), workers, goodput * 32 / (gbps * 1e3), "share");
          row(fmt::format("{} of the most", name), workers, goodput / most, "share");
          figure.rows.back().paper = paper_least(system, gbps);
        }
        line.points.push_back({static_cast<double>(workers), goodput});
      }
      plot.series.push_back(std::move(line));
    }
    PlotSeries most{.name = "most for packets of 256", .points = {}, .reference = true};
    for (const uint32_t workers : kWorkers) {
      most.points.push_back({static_cast<double>(workers), maximum_goodput(gbps, 256, kHead)});
    }
    plot.series.push_back(std::move(most));
    add_paper(plot, options, gbps);
    figure.plots.push_back(std::move(plot));
  }
  figure.notes = {
      "of the line: gradients' bits over the link's rate. The paper's 93 % and 77 % (§5) are "
      "arithmetic, the share of a packet that is not header; they are no measurements.",
      "of the most: over the rate that the link carries in packets of that size. Paper: at least "
      "0.98, since RDMA with packets of 256 \"is within 2% of the maximum achievable goodput\" "
      "(§6.1).",
      "Hosts take the time of all figures' hosts for a packet; those with RDMA take 5 ns.",
      "Colocated servers share their worker's cable but not its cores (§6.1: 8 cores each). On one "
      "host CPU, both together would have at most 1463 Melem/s."};
  return figure;
}

}  // namespace

Figure switchml_3() {
  return {.name = "switchml-3",
          .description = "elements a second over workers at 10 and 100 Gbit/s, SwitchML and peers",
          .x_name = "workers",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
