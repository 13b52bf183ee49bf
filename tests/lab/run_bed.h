// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a scenario that a test expects to succeed.
///
/// Tests: used by tests/lab/run_test.cc, straggling_run_test.cc, unequal_run_test.cc
#pragma once

#include <gtest/gtest.h>

#include "lab/run.h"

namespace tributary::testing {

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

}  // namespace tributary::testing
