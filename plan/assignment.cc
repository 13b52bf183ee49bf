// SPDX-License-Identifier: Apache-2.0
#include "plan/assignment.h"

#include <algorithm>

#include "plan/byteps_equations.h"
#include "plan/weights.h"

namespace tributary::plan {
namespace {

/// A link or CPU is a bottleneck if it is idle for less than this part of the time.
constexpr double kIdleMax = 0.001;

/// Largest part that rounding shares to weights may add to the time, where weights allow it.
constexpr double kRoundingMax = 0.002;

/// Returns weights_of() the best shares. If rounding makes these too slow, as with a machine whose
/// share is about kShareErrorMax, it returns weights that limit the time instead.
std::vector<uint32_t> weights_for(std::span<const Machine> machines, const TensorSize& tensor,
                                  const OptimalShares& best) {
  std::vector<uint32_t> weights = weights_of(best.shares);
  const double rounded_s = longest(machine_times(machines, shares_of(weights), tensor));
  // Many machines may need a larger limit, because their weights have a sum of kWeightMax at most.
  for (double part = kRoundingMax; best.seconds * (1 + part) < rounded_s; part *= 2) {
    const auto ranges = shares_within(machines, tensor, best.seconds * (1 + part));
    auto limited = weights_within(best.shares, ranges);
    if (limited) return *std::move(limited);
  }
  return weights;
}

Bottleneck bottleneck_of(const MachineTime& time, double seconds) {
  const double busy = (1 - kIdleMax) * seconds;
  if (seconds > 0 && time.link_s >= busy) return Bottleneck::kLink;
  return seconds > 0 && time.sum_s >= busy ? Bottleneck::kCpu : Bottleneck::kNone;
}

std::optional<double> equation_seconds(std::span<const Machine> machines,
                                       const TensorSize& tensor) {
  const uint32_t workers = worker_count(machines);
  const double rate = machines.front().link_bytes_per_s;
  const bool equal = std::all_of(machines.begin(), machines.end(), [&](const Machine& machine) {
    return machine.aggregator && machine.link_bytes_per_s == rate &&
           machine.sum_bytes_per_s == kUnlimited;
  });
  if (!equal || workers < 2) return {};
  const auto spares = static_cast<uint32_t>(machines.size()) - workers;
  return byteps_optimum(workers, spares) * tensor.bytes * tensor.wire_ratio / rate;
}

/// Returns the time of the best ring: its slowest link carries 2(n - 1)/n tensors, and its slowest
/// CPU adds (n - 1)/n tensors.
double ring_seconds(std::span<const Machine> machines, const TensorSize& tensor) {
  double rate_min = kUnlimited;
  double sum_min = kUnlimited;
  for (const Machine& machine : machines) {
    if (!machine.worker) continue;
    rate_min = std::min(rate_min, machine.link_bytes_per_s);
    sum_min = std::min(sum_min, machine.sum_bytes_per_s);
  }
  const double tensors = best_ring(worker_count(machines));
  return std::max(tensors * tensor.bytes * tensor.wire_ratio / rate_min,
                  tensors / 2 * tensor.bytes / sum_min);
}

double one_aggregator_seconds(std::span<const Machine> machines, const TensorSize& tensor) {
  double seconds = kUnlimited;
  std::vector<double> shares(machines.size(), 0.0);
  for (size_t i = 0; i < machines.size(); i++) {
    if (!machines[i].aggregator) continue;
    shares[i] = 1;
    seconds = std::min(seconds, longest(machine_times(machines, shares, tensor)));
    shares[i] = 0;
  }
  return seconds;
}

}  // namespace

const char* to_string(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kNone:
      return "none";
    case Bottleneck::kLink:
      return "link";
    case Bottleneck::kCpu:
      return "cpu";
  }
  return "";
}

Result<Assignment> assign(std::span<const Machine> machines, const TensorSize& tensor) {
  if (const auto checked = check_machines(machines); !checked) {
    return tl::unexpected(checked.error());
  }
  const OptimalShares best = optimal_shares(machines, tensor);
  Assignment assignment;
  assignment.weights = weights_for(machines, tensor, best);
  assignment.shares = shares_of(assignment.weights);
  assignment.times = machine_times(machines, assignment.shares, tensor);
  assignment.predicted_s = longest(assignment.times);
  for (const MachineTime& time : assignment.times) {
    assignment.bottlenecks.push_back(bottleneck_of(time, assignment.predicted_s));
  }
  assignment.optimum_s = best.seconds;
  assignment.equation_s = equation_seconds(machines, tensor);
  assignment.ring_s = ring_seconds(machines, tensor);
  assignment.one_aggregator_s = one_aggregator_seconds(machines, tensor);
  return assignment;
}

}  // namespace tributary::plan
