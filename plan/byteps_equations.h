// SPDX-License-Identifier: Apache-2.0
/// @file
/// Equations 1, 2 and 6 of the BytePS paper: the best shares and the best time for equal links.
///
/// Model:   n worker machines that run aggregators, k <= n spare machines, one link rate, no limit
///          of any CPU. optimal_shares.h has the general case.
/// Shapes:  Shares are fractions of the tensor; a time is in units of M/B, the time in which one
///          link carries the tensor once.
/// Threads: Pure functions.
/// Errors:  None; n >= 2.
/// Source:  BytePS paper (OSDI '20) §4.1; table 1 for the ring.
/// Tests:   tests/plan/byteps_equations_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

namespace tributary::plan {

/// Returns n^2 + kn - 2k, the denominator of all three equations.
[[nodiscard]] constexpr double byteps_denominator(uint32_t workers, uint32_t spares) {
  const double n = workers;
  const double k = spares;
  return n * n + k * n - 2 * k;
}

/// Returns equation 1: the share of the aggregator on each spare machine.
[[nodiscard]] constexpr double byteps_spare_share(uint32_t workers, uint32_t spares) {
  return 2 * (workers - 1.0) / byteps_denominator(workers, spares);
}

/// Returns equation 2: the share of the aggregator on each worker machine.
[[nodiscard]] constexpr double byteps_worker_share(uint32_t workers, uint32_t spares) {
  return (1.0 * workers - spares) / byteps_denominator(workers, spares);
}

/// Returns equation 6: the optimum in M/B. Spare machines beyond n do not help (§4.1.1).
[[nodiscard]] constexpr double byteps_optimum(uint32_t workers, uint32_t spares) {
  const uint32_t useful = std::min(spares, workers);
  return 2.0 * workers * (workers - 1.0) / byteps_denominator(workers, useful);
}

/// Returns the time of the best ring in M/B: 2(n - 1)/n.
[[nodiscard]] constexpr double best_ring(uint32_t workers) { return 2 * (workers - 1.0) / workers; }

static_assert(byteps_optimum(4, 0) == 1.5 && best_ring(4) == 1.5);  // 24 / 16
static_assert(byteps_optimum(4, 4) == 1.0);                         // 24 / (16 + 16 - 8)
static_assert(byteps_spare_share(4, 2) == 0.3);                     // 6 / (16 + 8 - 4)
static_assert(byteps_worker_share(4, 2) == 0.1);                    // 2 / 20

}  // namespace tributary::plan
