// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expects that a campaign run kept every promise.
#pragma once

#include <gmock/gmock.h>

#include "lab/faults/fault_run.h"

namespace tributary::lab {

inline void expect_good(const FaultResult& result) {
  for (uint32_t i = 0; i < kBreachKinds; i++) {
    EXPECT_THAT(result.breaches[i], ::testing::IsEmpty()) << kBreachNames[i];
  }
}

}  // namespace tributary::lab
