// SPDX-License-Identifier: Apache-2.0
/// @file
/// Looks up a figure of an aggregator's report by name.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lab/result.h"

namespace tributary::lab {

/// Returns the figure `name`. Fails the test if the aggregator reports no such figure.
inline double part_of(const AggregatorResult& aggregator, const std::string& name) {
  for (const AggregatorResult::Part& part : aggregator.parts) {
    if (part.name == name) return part.value;
  }
  ADD_FAILURE() << "no part " << name;
  return -1;
}

}  // namespace tributary::lab
