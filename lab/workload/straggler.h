// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ways in which workers become stragglers, by name, each from a seed.
///
/// Model:   A pattern is a pure function of its seed: who sleeps how long at which delay point, by
///          what factor a computation takes longer, which process stands still. An iteration has
///          three delay points (host/straggler_pattern.h): before the forward pass, before the
///          backward pass, and half-way through the backward pass. Assumed: the Trio paper (§6.1)
///          names three points, not where they are.
/// Threads: Immutable after construction.
/// Errors:  make_straggler_pattern() assumes a scenario that passed check().
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

  /// How long a worker sleeps. @param delay_point iteration * host::kDelayPoints + point.
  [[nodiscard]] virtual Duration delay_at(uint32_t worker, uint64_t delay_point) const;
  /// So many times as long as usual a worker's computation takes in an iteration.
  [[nodiscard]] virtual double compute_factor(uint32_t worker, uint32_t iteration) const;
  /// A worker that does not is in the job and never sends a gradient.
  [[nodiscard]] virtual bool contributes(uint32_t worker) const;
  /// The worker whose process stands still for a time, if any.
  [[nodiscard]] virtual std::optional<Pause> pause() const;
  /// The worker that other traffic flows to, if any; the rate is the scenario's background_share.
  [[nodiscard]] virtual std::optional<uint32_t> background_to() const;
};

struct StragglerKind {
  Straggling id;
  Choice choice;
  bool needs_typical_iteration = false;
  /// Without mitigation nobody would ever go on.
  bool needs_mitigation = false;
  std::unique_ptr<StragglerPattern> (*make)(const Scenario& scenario, Duration typical_iteration);
};

/// Returns a row for each Straggling, in their order.
[[nodiscard]] const std::vector<StragglerKind>& straggler_kinds();
[[nodiscard]] const StragglerKind& straggler_kind(Straggling pattern);

}  // namespace tributary::lab
