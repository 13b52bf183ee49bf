// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a scenario.
///
/// Threads: A run belongs to the calling thread and shares nothing with others. Several may run at
///          once, one a thread.
/// Errors:  Those of check(). The error of a run that does not end names the worker
///          that hangs and the reason.
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

/// Adds real tensors to a run: a model that is trained in virtual time gives each worker's
/// gradients and receives the means. The tensor travels as each iteration's last bucket, through
/// the same aggregator. With the back end "asynchronous" it takes the place of the only bucket: it
/// is a change of the parameters, then the parameters.
class TensorExchange {
 public:
  virtual ~TensorExchange() = default;

  /// Returns the worker's tensor of this iteration, which must stay until reduced(). All tensors
  /// have the same length. Called at the end of the backward computation. @param computed False if
  /// the worker skipped its computation to catch up. It then only receives, and the values of its
  /// tensor do not matter.
  virtual std::span<float> tensor(uint32_t worker, uint32_t iteration, bool computed) = 0;

  /// Returns the floats' format in packets (docs/wire-format.md).
  [[nodiscard]] virtual wire::ElementFormat format() const {
    return wire::ElementFormat::kFixedScale;
  }
  /// Returns the operation of its all-reduce. The back end "asynchronous" only adds.
  [[nodiscard]] virtual host::ReduceOp op() const { return host::ReduceOp::kMean; }
  /// Returns the scale of kFixedScale: packets carry round(x * scale).
  [[nodiscard]] virtual float scale() const = 0;

  /// Called instead of tensor() in an iteration without traffic (ModelSettings::local_steps): the
  /// worker applies its gradients to its own parameters.
  virtual void apply_alone(uint32_t /*worker*/, uint32_t /*iteration*/) {}

  /// Called when the tensor holds the result. `outcome` names the sources of each block.
  virtual void reduced(uint32_t worker, uint32_t iteration, const host::Outcome& outcome) = 0;

  /// Called when the worker's iteration ends.
  virtual void iteration_ended(uint32_t worker, uint32_t iteration, Instant at) = 0;

  /// Returns whether the run ends with this iteration, before the scenario's last one. Called after
  /// iteration_ended(). All workers get the same answer.
  [[nodiscard]] virtual bool is_last(uint32_t /*iteration*/) const { return false; }
};

/// Returns whether the scenario's stragglers sleep for parts of a typical iteration.
[[nodiscard]] bool needs_typical_iteration(const Scenario& scenario);
/// Returns the short scenario without stragglers whose mean iteration is the typical one.
[[nodiscard]] Scenario calm_scenario(const Scenario& scenario);

/// Runs the scenario to its end. @param tensors May be null. @param observer May be null.
[[nodiscard]] Result<RunResult> run_scenario(const Scenario& scenario,
                                             TensorExchange* tensors = nullptr,
                                             RunObserver* observer = nullptr);

}  // namespace tributary::lab
