// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts every call of the global operator new, in programs that link allocation_count.cc.
///
/// Threads: Any.
/// Tests:   tests/apps/trio_ml/allocation_test.cc, tests/apps/guard/allocation_test.cc,
///          tests/apps/telemetry/allocation_test.cc
#pragma once

#include <cstdint>

namespace tributary::testing {

/// Returns the number of allocations of this process so far.
[[nodiscard]] uint64_t allocation_count();

}  // namespace tributary::testing
