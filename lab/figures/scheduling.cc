// SPDX-License-Identifier: Apache-2.0
// Iteration time over the speed of the network, where the next forward pass waits for all sums, and
// where it begins with the first layers' sum (BytePS paper §5 and §8). The paper has no such
// figure.
#include <fmt/format.h>

#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "host/send_gate.h"
#include "lab/backends/backend.h"
#include "lab/figures/figure.h"
#include "lab/workload/iteration_time.h"
#include "net/packet.h"
#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "scheduling";

/// Packets that one simulated packet represents. Assumed: tests/lab/scheduling_run_test.cc bounds
/// the error.
constexpr uint32_t kTrain = 16;
constexpr uint32_t kTrainQuick = 128;
/// The first iteration has two forward passes where passes overlap, and the last one none. Those
/// between are alike.
constexpr uint32_t kIterations = 4;
constexpr uint32_t kIterationsQuick = 3;

struct System {
  const char* name;
  Backend backend;
  Topology topology;
  uint32_t window;
};
/// Windows are the credit: urgent packets wait for those in flight. Source: Trio paper §6.1; 4 MB,
/// one of the parts into which BytePS cuts tensors (BytePS paper §4.1).
constexpr std::array<System, 2> kSystems{{{"trio-ml", Backend::kTrioMl, Topology::kChassis, 4096},
                                          {"sharded", Backend::kSharded, Topology::kStar, 1024}}};
/// Enough for the long trains of a quick run.
constexpr uint32_t kWindowQuick = 4096;

struct Network {
  const char* name;
  Model model;
};
constexpr std::array<Network, 2> kNetworks{
    {{"ResNet-50", Model::kResnet50}, {"VGG-16", Model::kVgg16}}};

struct Order {
  const char* name;
  bool overlaps;
  uint32_t priorities;
};
constexpr std::array<Order, 3> kOrders{{{"no overlap", false, 1},
                                        {"overlap in arrival order", true, 1},
                                        {"overlap by priority", true, host::kPrioritiesMax}}};
// Places in the list.
constexpr size_t kNoOverlap = 0;
constexpr size_t kByPriority = 2;

std::vector<double> rates_gbps(const FigureOptions& options) {
  if (options.quick) return {10};
  return {2.5, 5, 10, 15, 25, 35, 50, 100};
}

Scenario cluster(const System& system, const Network& network, double gbps, const Order& order) {
  Scenario scenario;
  scenario.backend = system.backend;
  scenario.topology = system.topology;
  scenario.model.kind = network.model;
  scenario.model.overlap_forward = order.overlaps;
  scenario.host.priorities = order.priorities;
  scenario.link.rate_bits_per_s = static_cast<uint64_t>(gbps * 1e9);
  scenario.host.nic_bits_per_s = scenario.link.rate_bits_per_s;
  // Kept results of four windows fit into a PFE's memory.
  scenario.mitigation.history = 16;
  return scenario;
}

/// The points by system, then network, rate and order.
Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const System& system : kSystems) {
    for (const Network& network : kNetworks) {
      for (const double gbps : rates_gbps(options)) {
        for (const Order& order : kOrders) {
          Scenario scenario = cluster(system, network, gbps, order);
          scenario.iterations = options.count_of(kIterations, kIterationsQuick);
          scenario.train = options.quick ? kTrainQuick : kTrain;
          scenario.window = options.quick ? kWindowQuick : system.window;
          made.push_back(figure_point(
              options,
              fmt::format("{}, {}, {} Gbit/s, {}", system.name, network.name, gbps, order.name),
              std::move(scenario)));
        }
      }
    }
  }
  return all_or_error(std::move(made));
}

/// Returns the mean without the first and the last iteration, if there are others.
double iteration_ms(const PointOutcome& outcome) {
  return value_of(outcome, [](const RunResult& run) {
    const std::vector<Duration>& all = run.iterations;
    if (all.size() < 3) return as_ms(run.mean_iteration);
    const Duration sum = std::accumulate(all.begin() + 1, all.end() - 1, Duration());
    return as_ms(sum / static_cast<int64_t>(all.size() - 2));
  });
}

/// Returns the time of each bucket on a worker's link, with headers, if the back end sends the
/// least number of bytes.
std::vector<Duration> transfer_times(const Scenario& scenario, const Workload& workload) {
  const wire::TrioMlFields header{.extended = true};
  const double gradients_bytes = double{wire::kGradientBytes} * scenario.gradients;
  const double packet_bytes = gradients_bytes + net::kWireOverheadBytes +
                              encoded_head_bytes(header, wire::ExtensionFields{});
  const double bits_per_element = 8 * packet_bytes / scenario.gradients *
                                  least_traffic(scenario, backend_kind(scenario.backend));
  std::vector<Duration> times;
  for (const Bucket& bucket : workload.buckets) {
    const double bits = bits_per_element * static_cast<double>(bucket.elements * scenario.train);
    times.push_back(from_seconds(bits / static_cast<double>(scenario.link.rate_bits_per_s)));
  }
  return times;
}

LinePlot plot_of(const Network& network) {
  return {.title = fmt::format("Scheduling: {}", network.name),
          .x_label = "link rate (Gbit/s)",
          .y_label = "speed-up by overlap and priorities",
          .series = {},
          .height_px = 360,
          .x_scale = PlotScale::kLog2};
}

/// Adds the rows and lines of a system and a network. @param points By rate, then order.
void add_lines(FigureOutcome& figure, const FigureOptions& options, const std::string& name,
               LinePlot& plot, const std::string& system, std::span<const Point> points,
               std::span<const PointOutcome> outcomes) {
  PlotSeries found{.name = system, .points = {}};
  PlotSeries most{.name = fmt::format("{}, by hand", system), .points = {}, .reference = true};
  const std::vector<double> rates = rates_gbps(options);
  for (size_t i = 0; i < rates.size(); i++) {
    const auto add = [&](const char* series, double here, const char* unit) {
      figure.rows.push_back(
          figure_row(options, kName, fmt::format("{}: {}", name, series), rates[i], here, unit));
    };
    std::array<double, kOrders.size()> times{};
    for (size_t order = 0; order < kOrders.size(); order++) {
      times[order] = iteration_ms(outcomes[i * kOrders.size() + order]);
      add(kOrders[order].name, times[order], "ms");
    }
    const Scenario& scenario = points[i * kOrders.size()].scenario;
    const Workload workload = workload_of(scenario);
    const std::vector<Duration> transfers = transfer_times(scenario, workload);
    const double waiting = as_ms(waiting_iteration(workload, transfers));
    const double least = as_ms(least_iteration(workload, transfers));
    add("no overlap, by hand", waiting, "ms");
    add("least, by hand", least, "ms");
    add("speed-up", times[kNoOverlap] / times[kByPriority], "x");
    add("speed-up, by hand", waiting / least, "x");
    found.points.push_back({rates[i], times[kNoOverlap] / times[kByPriority]});
    most.points.push_back({rates[i], waiting / least});
  }
  plot.series.push_back(std::move(found));
  plot.series.push_back(std::move(most));
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  for (const Network& network : kNetworks) figure.plots.push_back(plot_of(network));
  const size_t each = rates_gbps(options).size() * kOrders.size();
  size_t at = 0;
  for (const System& system : kSystems) {
    for (size_t i = 0; i < kNetworks.size(); i++) {
      add_lines(figure, options, fmt::format("{}, {}", system.name, kNetworks[i].name),
                figure.plots[i], system.name, points.subspan(at, each), outcomes.subspan(at, each));
      at += each;
    }
  }
  figure.notes = {
      fmt::format("Six workers, {} priorities. A bucket is DDP's; the layers of a bucket wait for "
                  "all of its sums.",
                  host::kPrioritiesMax),
      "By hand: links carry one bucket after the other, with headers; aggregators and hosts take "
      "no time. Where an aggregator is slower than the links, there is more to overlap."};
  return figure;
}

}  // namespace

Figure scheduling() {
  return {.name = kName,
          .description = "iteration time with overlapping forward pass and priorities",
          .x_name = "link_gbps",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
