// SPDX-License-Identifier: Apache-2.0
/// @file
/// The share of a tensor for each aggregator with which one all-reduce takes the least time, for
/// machines with different links and CPUs.
///
/// Model:   A worker's machine with share w carries (1 - w) + (n - 1)w tensors each way, a spare
///          one nw, and an aggregator adds nw (BytePS §4.1.1). The slowest link or CPU decides.
/// Shapes:  One share for each machine, from 0 to 1, sum 1; 0 where no aggregator runs.
/// Units:   Seconds and bytes. Links carry wire bytes; CPUs add gradients without headers.
/// Threads: Pure functions. Only the planner uses floating point; ranks cut by integer weights.
/// Errors:  None; callers check the machines with check_machines().
/// Tests:   tests/plan/optimal_shares_test.cc
#pragma once

#include <span>
#include <vector>

#include "plan/machine.h"
#include "plan/weights.h"

namespace tributary::plan {

/// The tensor of one all-reduce.
struct TensorSize {
  double bytes = 0;       ///< Bytes of gradients.
  double wire_ratio = 1;  ///< Bytes on a link for each byte of gradients: headers and gaps.
};

struct OptimalShares {
  std::vector<double> shares;  ///< Shape [machines].
  double seconds = 0;          ///< The least time of the all-reduce.
};

/// Returns the best shares. Of several best ones it takes those that load worker machines least:
/// spare machines are filled first.
/// @pre check_machines(machines) accepts the machines.
[[nodiscard]] OptimalShares optimal_shares(std::span<const Machine> machines,
                                           const TensorSize& tensor);

/// Returns the shares with which each machine finishes within `seconds`.
/// @pre check_machines() accepts the machines; `seconds` is not below that of optimal_shares().
[[nodiscard]] std::vector<ShareRange> shares_within(std::span<const Machine> machines,
                                                    const TensorSize& tensor, double seconds);

/// The time for which one all-reduce occupies a machine.
struct MachineTime {
  double link_s = 0;  ///< Each way of the link.
  double sum_s = 0;   ///< The aggregator's CPU; 0 if it has no limit.
};

/// Returns the time of each machine with any shares. @pre The shares have the shape [machines].
[[nodiscard]] std::vector<MachineTime> machine_times(std::span<const Machine> machines,
                                                     std::span<const double> shares,
                                                     const TensorSize& tensor);

/// Returns the time of the all-reduce: the longest of all links and CPUs.
[[nodiscard]] double longest(std::span<const MachineTime> times);

/// Returns the number of machines that run a worker.
[[nodiscard]] uint32_t worker_count(std::span<const Machine> machines);

}  // namespace tributary::plan
