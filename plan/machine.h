// SPDX-License-Identifier: Apache-2.0
/// @file
/// A machine of a sharded job, as the planner sees it: its link, its CPU and its roles.
///
/// Model:   One full-duplex link to a network without a bottleneck of its own (BytePS §4.1). The
///          CPU adds incoming gradients at a constant rate.
/// Units:   Bytes per second.
/// Threads: Plain values.
/// Errors:  check_machines() returns one line with the machine, the value and the allowed values.
/// Tests:   tests/plan/machine_test.cc
#pragma once

#include <limits>
#include <span>
#include <string>

#include "base/result.h"

namespace tributary::plan {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct Machine {
  std::string name;             ///< Unique in its job.
  double link_bytes_per_s = 0;  ///< Each way, above 0.
  /// Bytes of gradients that the aggregator's CPU can add in a second, above 0.
  double sum_bytes_per_s = kUnlimited;
  bool worker = true;      ///< Contributes a tensor.
  bool aggregator = true;  ///< May be given a share of the tensor to sum.
};

/// Refuses a job without a worker or without an aggregator, a machine without a role, a name that
/// is given twice, and rates that are not above 0.
[[nodiscard]] Result<void> check_machines(std::span<const Machine> machines);

}  // namespace tributary::plan
