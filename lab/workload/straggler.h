// SPDX-License-Identifier: Apache-2.0
/// @file
/// Straggler patterns: the ways in which workers become slow, each from a seed.
///
/// Model:   A pattern is a pure function of its seed. It gives each worker's sleep at each delay
///          point, the factor of its computation time, and a pause of its process. An iteration has
///          three delay points (host/straggler_pattern.h): before the forward pass, before the
///          backward pass, and half-way through the backward pass. Assumed: the Trio paper (§6.1)
///          names three points without their places.
/// Threads: Immutable after construction.
///          Several patterns at once: delays add up and factors multiply.
/// Tests:   tests/lab/workload/straggler_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/scenario.h"

namespace tributary::lab {

class StragglerPattern {
 public:
  struct Pause {
    std::vector<uint32_t> workers;
    Duration at;
    Duration length;
  };

  virtual ~StragglerPattern() = default;

  /// Returns a worker's sleep. @param delay_point iteration * host::kDelayPoints + point.
  [[nodiscard]] virtual Duration delay_at(uint32_t worker, uint64_t delay_point) const;
  /// Returns the factor of a worker's own time in an iteration: of its computation, its input
  /// pipeline, and its copies between GPU and host.
  [[nodiscard]] virtual double compute_factor(uint32_t worker, uint32_t iteration) const;
  /// Returns false for a worker that joins the job and never sends a gradient.
  [[nodiscard]] virtual bool contributes(uint32_t worker) const;
  /// Returns the workers whose processes stop for a time, if any.
  [[nodiscard]] virtual std::optional<Pause> pause() const;
  /// Returns the workers that receive other traffic. The scenario's background_share sets the rate.
  [[nodiscard]] virtual std::vector<uint32_t> background_to() const;
  /// Returns the sum of recorded delays, for a bound on the run's time.
  [[nodiscard]] virtual Duration recorded_total() const;
};

/// The arguments of a pattern.
struct PatternTerms {
  const Scenario& scenario;  ///< Passed check().
  Duration typical_iteration;
  uint64_t seed;
};

struct StragglerKind {
  Straggling id;
  Choice choice;
  bool needs_typical_iteration = false;
  /// True if no worker would make progress without mitigation.
  bool needs_mitigation = false;
  Result<std::unique_ptr<StragglerPattern>> (*make)(const PatternTerms& terms);
};

/// Returns a row for each Straggling, in their order.
[[nodiscard]] const std::vector<StragglerKind>& straggler_kinds();
[[nodiscard]] const StragglerKind& straggler_kind(Straggling pattern);
/// Returns the row of each pattern in the set; that of kNone for the empty set.
[[nodiscard]] std::vector<const StragglerKind*> kinds_in(PatternSet patterns);

/// Returns the ranks that straggler.workers and straggler.racks name, in order; empty for none.
[[nodiscard]] std::vector<uint32_t> named_workers(const Scenario& scenario);
/// Returns the stragglers of patterns of certain workers: the named ones, or else straggler.worker.
[[nodiscard]] std::vector<uint32_t> certain_workers(const Scenario& scenario);

/// Refuses a straggler.trace that DelayTrace::read() refuses or that has no row for the scenario's
/// iterations, if the scenario has the pattern trace.
[[nodiscard]] Result<void> check_trace(const Scenario& scenario);

/// Makes the patterns of a set as one. Each has its own random numbers. Refuses a trace that
/// DelayTrace::read() refuses.
/// @param scenario Passed check().
[[nodiscard]] Result<std::unique_ptr<StragglerPattern>> make_pattern(PatternSet patterns,
                                                                     const Scenario& scenario,
                                                                     Duration typical_iteration);

}  // namespace tributary::lab
