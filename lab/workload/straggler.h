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
/// Errors:  StragglerKind::make assumes a scenario that passed check().
/// Tests:   tests/lab/workload/straggler_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "lab/scenario.h"

namespace tributary::lab {

class StragglerPattern {
 public:
  struct Pause {
    uint32_t worker;
    Duration at;
    Duration length;
  };

  virtual ~StragglerPattern() = default;

  /// Returns a worker's sleep. @param delay_point iteration * host::kDelayPoints + point.
  [[nodiscard]] virtual Duration delay_at(uint32_t worker, uint64_t delay_point) const;
  /// Returns the factor of a worker's computation time in an iteration.
  [[nodiscard]] virtual double compute_factor(uint32_t worker, uint32_t iteration) const;
  /// Returns false for a worker that joins the job and never sends a gradient.
  [[nodiscard]] virtual bool contributes(uint32_t worker) const;
  /// Returns the worker whose process stops for a time, if any.
  [[nodiscard]] virtual std::optional<Pause> pause() const;
  /// Returns the worker that receives other traffic, if any. The scenario's background_share sets
  /// the rate.
  [[nodiscard]] virtual std::optional<uint32_t> background_to() const;
};

struct StragglerKind {
  Straggling id;
  Choice choice;
  bool needs_typical_iteration = false;
  /// Without mitigation no worker would make progress.
  bool needs_mitigation = false;
  std::unique_ptr<StragglerPattern> (*make)(const Scenario& scenario, Duration typical_iteration);
};

/// Returns a row for each Straggling, in their order.
[[nodiscard]] const std::vector<StragglerKind>& straggler_kinds();
[[nodiscard]] const StragglerKind& straggler_kind(Straggling pattern);

}  // namespace tributary::lab
