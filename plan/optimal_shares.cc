// SPDX-License-Identifier: Apache-2.0
#include "plan/optimal_shares.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace tributary::plan {
namespace {

/// A sum of shares this close to 1 is 1. Without it, a rounding error just below 1 would move the
/// result to the next breakpoint.
constexpr double kRounding = 1e-12;

/// slope * x + offset. Here x is the time of the all-reduce for each byte of gradients.
struct Line {
  double slope = 0;
  double offset = 0;
  [[nodiscard]] double at(double x) const { return slope * x + offset; }
};

/// The shares that a machine can have, as functions of x.
struct ShareLimits {
  std::vector<Line> most;  ///< The least of these and 1 is the largest share; none: 1.
  Line least;              ///< The smallest share, if above 0. Only a lone worker has one.
  double x_min = 0;        ///< Below, the machine cannot finish in time with any share.
  bool worker = false;

  [[nodiscard]] double most_at(double x) const {
    double share = 1;
    for (const Line& line : most) share = std::min(share, line.at(x));
    return std::max(share, 0.0);
  }
  [[nodiscard]] double least_at(double x) const { return std::clamp(least.at(x), 0.0, 1.0); }
};

ShareLimits limits_of(const Machine& machine, uint32_t workers, double wire_ratio) {
  const double n = workers;
  // Tensors that the link carries in a time of x for each byte.
  const double link = machine.link_bytes_per_s / wire_ratio;
  const double cpu = machine.sum_bytes_per_s;
  ShareLimits limits;
  limits.worker = machine.worker;
  if (!machine.aggregator) {
    limits.most = {Line{}};
    limits.x_min = 1 / link;
    return limits;
  }
  if (std::isfinite(cpu)) limits.most.push_back({.slope = cpu / n});  // n w <= x cpu
  if (!machine.worker) {
    limits.most.push_back({.slope = link / n});  // n w <= x link
  } else if (workers == 1) {
    // 1 - w <= x link: the tensor's other part goes over the link. It must fit the CPU's limit.
    limits.least = {.slope = -link, .offset = 1};
    limits.x_min = 1 / (link + cpu);
  } else {
    limits.x_min = 1 / link;
    // 1 + (n - 2) w <= x link; with two workers the link carries one tensor for any w.
    if (workers > 2) limits.most.push_back({.slope = link / (n - 2), .offset = -1 / (n - 2)});
  }
  return limits;
}

double sum_of_most(std::span<const ShareLimits> limits, double x) {
  double sum = 0;
  for (const ShareLimits& limit : limits) sum += limit.most_at(x);
  return sum;
}

/// Returns, ascending from `x_min`, every x at which the slope of a machine's largest share
/// changes.
std::vector<double> breakpoints(std::span<const ShareLimits> limits, double x_min) {
  std::vector<double> points{x_min};
  const auto add = [&](double x) {
    if (std::isfinite(x) && x > x_min) points.push_back(x);
  };
  for (const ShareLimits& limit : limits) {
    for (const Line& line : limit.most) {
      add(-line.offset / line.slope);       // Leaves 0.
      add((1 - line.offset) / line.slope);  // Reaches 1.
    }
    if (limit.most.size() == 2) {
      const auto& [a, b] = std::pair(limit.most[0], limit.most[1]);
      add((b.offset - a.offset) / (a.slope - b.slope));
    }
  }
  std::sort(points.begin(), points.end());
  return points;
}

/// Returns the smallest x from `x_min` at which the largest shares add up to 1. Their sum never
/// falls and is linear between two breakpoints, so the crossing is computed, not searched.
double smallest_x(std::span<const ShareLimits> limits, double x_min) {
  const std::vector<double> points = breakpoints(limits, x_min);
  double x = points.front();
  double sum = sum_of_most(limits, x);
  for (const double next : points) {
    if (sum >= 1 - kRounding) return x;
    const double sum_next = sum_of_most(limits, next);
    if (sum_next >= 1) return x + (next - x) * (1 - sum) / (sum_next - sum);
    x = next;
    sum = sum_next;
  }
  return x;  // At the last breakpoint the share of each aggregator is 1.
}

/// Adds up to `rest` to the shares of one role, each in proportion to its room below its limit.
/// @return the part of `rest` that did not fit.
double fill(std::span<const ShareLimits> limits, double x, bool workers, double rest,
            std::vector<double>& shares) {
  double room = 0;
  for (size_t i = 0; i < limits.size(); i++) {
    if (limits[i].worker == workers) room += std::max(limits[i].most_at(x) - shares[i], 0.0);
  }
  if (room <= 0 || rest <= 0) return rest;
  const double part = std::min(rest / room, 1.0);
  for (size_t i = 0; i < limits.size(); i++) {
    if (limits[i].worker != workers) continue;
    shares[i] += part * std::max(limits[i].most_at(x) - shares[i], 0.0);
  }
  return rest - part * room;
}

}  // namespace

uint32_t worker_count(std::span<const Machine> machines) {
  return static_cast<uint32_t>(
      std::count_if(machines.begin(), machines.end(), [](const Machine& m) { return m.worker; }));
}

OptimalShares optimal_shares(std::span<const Machine> machines, const TensorSize& tensor) {
  TRIB_ASSERT(check_machines(machines).has_value());
  const uint32_t workers = worker_count(machines);
  std::vector<ShareLimits> limits;
  double x_min = 0;
  for (const Machine& machine : machines) {
    limits.push_back(limits_of(machine, workers, tensor.wire_ratio));
    x_min = std::max(x_min, limits.back().x_min);
  }
  const double x = smallest_x(limits, x_min);
  OptimalShares best{.shares = {}, .seconds = x * tensor.bytes};
  double rest = 1;
  for (const ShareLimits& limit : limits) {
    best.shares.push_back(limit.least_at(x));
    rest -= best.shares.back();
  }
  rest = fill(limits, x, false, rest, best.shares);
  fill(limits, x, true, rest, best.shares);
  return best;
}

std::vector<ShareRange> shares_within(std::span<const Machine> machines, const TensorSize& tensor,
                                      double seconds) {
  const uint32_t workers = worker_count(machines);
  const double x = seconds / tensor.bytes;
  std::vector<ShareRange> ranges;
  for (const Machine& machine : machines) {
    const ShareLimits limits = limits_of(machine, workers, tensor.wire_ratio);
    ranges.push_back({.least = limits.least_at(x), .most = limits.most_at(x)});
  }
  return ranges;
}

std::vector<MachineTime> machine_times(std::span<const Machine> machines,
                                       std::span<const double> shares, const TensorSize& tensor) {
  TRIB_ASSERT(shares.size() == machines.size());
  const double n = worker_count(machines);
  std::vector<MachineTime> times;
  for (size_t i = 0; i < machines.size(); i++) {
    const Machine& machine = machines[i];
    // A worker reaches the aggregator of its machine without the link.
    const double peers = machine.worker ? n - 1 : n;
    const double own = machine.worker ? 1 - shares[i] : 0;
    const double tensors = own + peers * shares[i];
    times.push_back(
        {.link_s = tensors * tensor.bytes * tensor.wire_ratio / machine.link_bytes_per_s,
         .sum_s = n * shares[i] * tensor.bytes / machine.sum_bytes_per_s});
  }
  return times;
}

double longest(std::span<const MachineTime> times) {
  double seconds = 0;
  for (const MachineTime& time : times) seconds = std::max({seconds, time.link_s, time.sum_s});
  return seconds;
}

}  // namespace tributary::plan
