// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small scenario, and a run that a test expects to succeed.
///
/// Tests: used by tests/lab/run_test.cc, straggling_run_test.cc, unequal_run_test.cc
#pragma once

#include <gtest/gtest.h>

#include "lab/run.h"

namespace tributary::testing {

/// Returns four workers with 10 ms of computation and eight windows of gradients in each of 20
/// iterations.
inline lab::Scenario four_workers(lab::Backend backend) {
  lab::Scenario scenario;
  scenario.backend = backend;
  scenario.workers = 4;
  scenario.iterations = 20;
  scenario.window = 64;
  scenario.mitigation.history = 64;
  scenario.model = {.kind = lab::Model::kCustom,
                    .bucket_bytes = {4096 * 256, 4096 * 256},
                    .forward = milliseconds(3),
                    .backward = milliseconds(7)};
  return scenario;
}

/// Returns the result. Fails the test and returns an empty result if the run is refused or fails.
inline lab::RunResult run_well(const lab::Scenario& scenario,
                               lab::TensorExchange* exchange = nullptr) {
  auto result = lab::run_scenario(scenario, exchange);
  if (!result) {
    ADD_FAILURE() << result.error().text;
    return {};
  }
  return *std::move(result);
}

/// Returns the time of an iteration without computation while a flow takes half of worker 2's
/// cable, over the time without that flow.
inline double slowdown_by_background(lab::Scenario scenario) {
  scenario.model.forward = scenario.model.backward = Duration();
  scenario.model.bucket_bytes = {4096 * 4096};
  scenario.window = 1024;
  scenario.iterations = 2;
  const double without = in_seconds(run_well(scenario).mean_iteration);
  scenario.straggler.pattern = lab::Straggling::kBackgroundFlow;
  scenario.straggler.worker = 2;
  scenario.straggler.background_share = 0.5;
  return in_seconds(run_well(scenario).mean_iteration) / without;
}

}  // namespace tributary::testing
