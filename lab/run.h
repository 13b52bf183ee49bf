// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a scenario.
///
/// Threads: A run belongs to the calling thread and shares nothing with others: run as many at once
///          as there are cores.
/// Errors:  What check() refuses; a run that does not end names the worker that hangs and why.
/// Determinism: Equal scenarios give equal results, on every compiler and machine.
/// Tests:   tests/lab/run_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "host/communicator.h"
#include "lab/result.h"
#include "lab/run_observer.h"
#include "lab/scenario.h"
#include "wire/trio_ml.h"

namespace tributary::lab {

/// Real tensors beside the scenario's own: whoever trains a real model in virtual time gives each
/// worker's gradients and takes the means. They travel as one more bucket, the last of each
/// iteration, through the same aggregator.
class TensorExchange {
 public:
  virtual ~TensorExchange() = default;

  /// The worker's tensor of this iteration, of the same length for all; asked for when its backward
  /// computation ends. It must stay until reduced(). @param computed False when the worker left its
  /// computation out to catch up: no fresh gradient exists.
  virtual std::span<float> tensor(uint32_t worker, uint32_t iteration, bool computed) = 0;

  /// How the floats travel (docs/wire-format.md).
  [[nodiscard]] virtual wire::ElementFormat format() const {
    return wire::ElementFormat::kFixedScale;
  }
  /// With kFixedScale as round(x * scale).
  [[nodiscard]] virtual float scale() const = 0;

  /// The tensor now holds the mean over the sources that `outcome` names block by block.
  virtual void reduced(uint32_t worker, uint32_t iteration, const host::Outcome& outcome) = 0;

  /// The iteration has ended for the worker at this virtual time.
  virtual void iteration_ended(uint32_t worker, uint32_t iteration, Instant at) = 0;
};

/// @param tensors May be null. @param observer Likewise.
[[nodiscard]] Result<RunResult> run_scenario(const Scenario& scenario,
                                             TensorExchange* tensors = nullptr,
                                             RunObserver* observer = nullptr);

}  // namespace tributary::lab
