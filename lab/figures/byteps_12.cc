// SPDX-License-Identifier: Apache-2.0
// Figure 12 of the BytePS paper: the goodput of eight worker machines that reduce large tensors,
// over the number of spare machines (§7.1).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lab/figures/byteps.h"
#include "lab/figures/figure.h"
#include "plan/byteps_equations.h"
#include "wire/headers.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "byteps-12";
/// Distance from the optimum. Source: §7.1 ("1-9% difference").
constexpr double kPaperShareLeast = 91;
constexpr double kPaperShareMost = 99;
/// "Large tensors" (§7.1). Assumed: 64 MB, as large as the largest layers of its models, four of
/// them in flight.
constexpr uint64_t kTensorBytes = 64'000'000;
constexpr uint64_t kTensorBytesQuick = 16'000'000;
constexpr size_t kTensors = 4;
/// Packets that one simulated packet represents. docs/byteps-figures.md has its effect.
constexpr uint32_t kTrain = 4;

/// The systems of the figure.
enum class System : uint8_t { kSharded, kSpareOnly, kRing };

struct Run {
  System system;
  uint32_t spares;
};

/// All points, in the order of systems, then spare machines.
std::vector<Run> runs(const FigureOptions& options) {
  const uint32_t step = options.quick ? 4 : 1;
  std::vector<Run> all;
  for (uint32_t k = 0; k <= kBytepsMachines; k += step) all.push_back({System::kSharded, k});
  for (uint32_t k = step; k <= kBytepsMachines; k += step) all.push_back({System::kSpareOnly, k});
  all.push_back({System::kRing, 0});
  return all;
}

std::string label_of(const Run& run) {
  switch (run.system) {
    case System::kSharded:
      return fmt::format("sharded, {} spare", run.spares);
    case System::kSpareOnly:
      return fmt::format("only on {} spare", run.spares);
    case System::kRing:
      break;
  }
  return "all-reduce";
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const Run& run : runs(options)) {
    Scenario scenario =
        byteps_scenario(run.system == System::kRing ? Backend::kRing : Backend::kSharded,
                        kBytepsMachines, run.spares);
    scenario.aggregators.colocated = run.system == System::kSharded;
    scenario.model.kind = Model::kCustom;
    scenario.model.bucket_bytes.assign(kTensors, options.quick ? kTensorBytesQuick : kTensorBytes);
    scenario.iterations = options.count_of(2, 1);
    scenario.train = kTrain;
    made.push_back(figure_point(options, label_of(run), std::move(scenario)));
  }
  return all_or_error(std::move(made));
}

double goodput_gbps(const Point& point, const PointOutcome& outcome) {
  const double bits = gradients_sent(point.scenario) * wire::kGradientBytes * 8;
  return value_of(outcome,
                  [bits](const RunResult& run) { return bits / as_ns(run.mean_iteration); });
}

/// Returns B of equation 6: the rate of a machine's link.
double link_gbps(const Scenario& scenario) {
  const uint64_t rate = std::min(scenario.link.rate_bits_per_s, scenario.host.nic_bits_per_s);
  return static_cast<double>(rate) / 1e9;
}

double optimum_gbps(const Scenario& scenario, uint32_t spares) {
  return link_gbps(scenario) / plan::byteps_optimum(scenario.workers, spares);
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  PlotSeries optimum{.name = "optimum (equation 6)", .points = {}, .reference = true};
  PlotSeries sharded{.name = "sharded", .points = {}};
  PlotSeries spare_only{.name = "spare machines only", .points = {}};
  PlotSeries ring{.name = "all-reduce (ring)", .points = {}, .reference = true};
  const auto add = [&](const char* series, double k, double here, const char* unit) {
    figure.rows.push_back(figure_row(options, kName, series, k, here, unit));
  };
  std::vector<std::pair<double, double>> shares;  // By k: percent of the optimum.
  const std::vector<Run> all = runs(options);
  for (size_t i = 0; i < all.size(); i++) {
    const double k = all[i].spares;
    const double gbps = goodput_gbps(points[i], outcomes[i]);
    const double best = optimum_gbps(points[i].scenario, all[i].spares);
    switch (all[i].system) {
      case System::kSharded:
        if (std::isfinite(gbps / best)) shares.emplace_back(gbps / best * 100, k);
        add("optimum", k, best, "Gbit/s");
        add("sharded", k, gbps, "Gbit/s");
        add("sharded, of the optimum", k, gbps / best * 100, "%");
        optimum.points.push_back({k, best});
        sharded.points.push_back({k, gbps});
        break;
      case System::kSpareOnly:
        add("spare machines only", k, gbps, "Gbit/s");
        spare_only.points.push_back({k, gbps});
        break;
      case System::kRing:
        add("all-reduce", k, gbps, "Gbit/s");
        add("all-reduce, of the optimum", k, gbps / best * 100, "%");
        ring.points = {{k, gbps}, {kBytepsMachines, gbps}};
        break;
    }
  }
  PlotSeries paper_least{.name = "paper: 91 % of the optimum", .points = {}, .reference = true};
  PlotSeries paper_most{.name = "paper: 99 % of the optimum", .points = {}, .reference = true};
  for (const PlotPoint& best : optimum.points) {
    paper_least.points.push_back({best.x, best.y * kPaperShareLeast / 100});
    paper_most.points.push_back({best.x, best.y * kPaperShareMost / 100});
  }
  if (!shares.empty()) {
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    add("sharded, least part of the optimum", least->second, least->first, "%");
    figure.rows.back().paper = kPaperShareLeast;
    add("sharded, largest part of the optimum", most->second, most->first, "%");
    figure.rows.back().paper = kPaperShareMost;
  }
  const Scenario& scenario = points.front().scenario;  // Of all: the same machines and links.
  figure.plots = {
      {.title = fmt::format("BytePS Figure 12: goodput of {} worker machines", scenario.workers),
       .x_label = "spare machines",
       .y_label = "goodput (Gbit/s)",
       .series = {optimum, sharded, spare_only, ring, paper_least, paper_most},
       .height_px = 360,
       .y_from_zero = true}};
  figure.notes = {
      fmt::format("optimum: equation 6 with B = {0} Gbit/s and no headers; here links carry {0} "
                  "Gbit/s with headers.",
                  link_gbps(scenario)),
      "The ring uses no spare machine, so its goodput holds for every number of them."};
  return figure;
}

}  // namespace

Figure byteps_12() {
  return {.name = kName,
          .description = "goodput of 8 workers over the number of spare machines",
          .x_name = "spare_machines",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
