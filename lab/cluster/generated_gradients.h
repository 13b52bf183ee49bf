// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients that need no model: a worker's integers are a function of where they stand, so that
/// whoever knows a sum's sources can check it.
///
/// Threads: Pure functions.
/// Tests:   tests/lab/cluster/generated_gradients_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "host/communicator.h"

namespace tributary::lab {

/// The integer that `rank` contributes at an element. Small enough that 256 of them do not wrap.
[[nodiscard]] int32_t generated_gradient(uint32_t rank, uint32_t iteration, uint32_t bucket,
                                         uint64_t element);

/// The set of ranks 0 … count - 1.
[[nodiscard]] host::SourceSet all_of(uint32_t count);

/// Checks the sums of one bucket.
class SumChecker {
 public:
  SumChecker(uint32_t iteration, uint32_t bucket, uint32_t workers)
      : iteration_(iteration), bucket_(bucket), workers_(workers) {}

  /// @return how many of sums[first … end - 1] are not the sum over `sources`.
  [[nodiscard]] uint64_t wrong_sums(std::span<const int32_t> sums, uint64_t first, uint64_t end,
                                    const host::SourceSet& sources) const;
  /// The same where it is known how many sources there are and not which: 0 if there is a set of so
  /// many for which all are right, else the least number for any.
  /// @pre At most 32 workers.
  [[nodiscard]] uint64_t wrong_sums_of_some(std::span<const int32_t> sums, uint64_t first,
                                            uint64_t end, uint32_t count) const;

 private:
  const uint32_t iteration_;
  const uint32_t bucket_;
  const uint32_t workers_;
};

}  // namespace tributary::lab
