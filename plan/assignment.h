// SPDX-License-Identifier: Apache-2.0
/// @file
/// The plan of a sharded job: the share of each aggregator, the time of an all-reduce, and the
/// machines that limit it. `tributary plan` prints it.
///
/// Model:   optimal_shares.h, then integer weights. The predicted time is that of the weights, at
///          most 0.2 % above the optimum where weights up to kWeightMax can be so close.
/// Shapes:  The vectors have one element for each machine.
/// Units:   Seconds.
/// Threads: Pure functions.
/// Errors:  Those of check_machines().
/// Tests:   tests/plan/assignment_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "plan/machine.h"
#include "plan/optimal_shares.h"

namespace tributary::plan {

/// The part of a machine that is busy for the whole all-reduce.
enum class Bottleneck : uint8_t { kNone, kLink, kCpu };
[[nodiscard]] const char* to_string(Bottleneck bottleneck);

struct Assignment {
  std::vector<uint32_t> weights;
  std::vector<double> shares;  ///< Shares that result from the weights.
  std::vector<MachineTime> times;
  std::vector<Bottleneck> bottlenecks;

  double predicted_s = 0;  ///< With these weights.
  double optimum_s = 0;    ///< With the best shares, before they are rounded to weights.
  /// Equation 6. Only if all links are equal, no CPU has a limit, and all workers' machines run
  /// aggregators.
  std::optional<double> equation_s;
  double ring_s = 0;            ///< The best ring, with headers of the same size.
  double one_aggregator_s = 0;  ///< The best single machine as the only aggregator.
};

/// Plans one all-reduce of `tensor`.
[[nodiscard]] Result<Assignment> assign(std::span<const Machine> machines,
                                        const TensorSize& tensor);

}  // namespace tributary::plan
