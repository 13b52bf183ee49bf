// SPDX-License-Identifier: Apache-2.0
/// @file
/// Artificial delays of workers for straggler experiments.
///
/// Model:   An iteration has three delay points. At each, the worker sleeps with probability p for
///          a time drawn uniformly from 0.5 to 2 typical iterations.
/// Units:   Delay points are counted through the run: iteration * kDelayPoints + point.
/// Threads: Immutable after construction.
/// Source:  Trio paper §6.1, after FlexRR (SoCC 2016).
/// Tests:   tests/host/straggler_pattern_test.cc, tests/lab/workload/straggler_test.cc
#pragma once

#include <cstdint>

#include "base/time.h"

namespace tributary::host {

/// Delay points in an iteration. Source: Trio paper §6.1.
inline constexpr uint32_t kDelayPoints = 3;
/// Shortest and longest delay, in typical iterations. Source: Trio paper §6.1.
inline constexpr double kDelayFactorMin = 0.5;
inline constexpr double kDelayFactorMax = 2.0;

/// Shortest iteration of a heavy tail, in medians. Assumed: luck at most halves a computation.
inline constexpr double kTailFactorMin = 0.5;

/// The delays of one worker. The paper lets "one of the servers decide to slow down at each point".
/// Here each worker that may straggle has a pattern with its own seed, so several workers can be
/// slow at once. An experiment with one straggler gives a pattern to that worker only.
class SlowWorkerPattern {
 public:
  /// @param probability        Probability of a delay at a delay point, 0 … 1.
  /// @param typical_iteration  Average iteration without stragglers, not negative.
  /// @param seed               One for each worker; the same seed gives the same delays.
  SlowWorkerPattern(double probability, Duration typical_iteration, uint64_t seed);

  /// Returns how long the worker sleeps at a delay point; zero for most. A pure function of the
  /// constructor's arguments and `delay_point`, so calls may come in any order and be repeated.
  [[nodiscard]] Duration delay_at(uint64_t delay_point) const;

 private:
  const double probability_;
  const Duration typical_iteration_;
  const uint64_t seed_;
};

/// The delays of all workers, in the paper's words: at each delay point one of the workers, chosen
/// uniformly, slows down with probability p.
class OneSlowWorkerPattern {
 public:
  /// @param workers At least 1.
  OneSlowWorkerPattern(double probability, Duration typical_iteration, uint32_t workers,
                       uint64_t seed);

  /// Returns the delay of one worker. At most one worker sleeps at a delay point.
  [[nodiscard]] Duration delay_at(uint32_t worker, uint64_t delay_point) const;

 private:
  const SlowWorkerPattern delays_;
  const uint32_t workers_;
  const uint64_t choice_seed_;
};

/// A worker's computation time with a heavy tail: a factor for each iteration, 1 in the median.
/// Model:   1 + (ratio - 1) * (1 / sqrt(1 - u) - sqrt(2)) / (10 - sqrt(2)) for u uniform: a Pareto
///          tail of index 2 (assumed) that goes through 1 at u = 0.5 and through `ratio` at 0.99.
///          The tail ends at u = 0.9999, the factor 1 + 11.5 (ratio - 1). The shortest iteration
///          takes kTailFactorMin, which ratios above 11.4 reach.
class HeavyTailPattern {
 public:
  /// @param p99_over_p50 At least 1.
  HeavyTailPattern(double p99_over_p50, uint64_t seed);

  /// Returns the factor of an iteration, from the constructor's arguments and `iteration` only.
  [[nodiscard]] double factor_at(uint64_t iteration) const;

 private:
  const double ratio_;
  const uint64_t seed_;
};

}  // namespace tributary::host
