// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expects that a campaign run kept every promise.
#pragma once

#include <gmock/gmock.h>

#include "lab/faults/fault_run.h"

namespace tributary::lab {

inline void expect_good(const FaultResult& result) {
  EXPECT_THAT(result.wrong, ::testing::IsEmpty());
  EXPECT_THAT(result.stuck, ::testing::IsEmpty());
  EXPECT_THAT(result.leaked, ::testing::IsEmpty());
}

}  // namespace tributary::lab
