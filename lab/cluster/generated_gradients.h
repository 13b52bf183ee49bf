// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients without a model. A worker's integers are a function of their position, so a sum can be
/// checked from its sources.
///
/// Threads: Pure functions.
/// Tests:   tests/lab/cluster/generated_gradients_test.cc
#pragma once

#include <cstdint>
#include <span>

#include "host/communicator.h"

namespace tributary::lab {

/// Returns the integer that `rank` contributes at an element. The sum of 256 of them does not wrap.
[[nodiscard]] int32_t generated_gradient(uint32_t rank, uint32_t iteration, uint32_t bucket,
                                         uint64_t element);

/// Returns the set of ranks 0 … count - 1.
[[nodiscard]] host::SourceSet all_of(uint32_t count);

/// Checks the sums of one bucket.
class SumChecker {
 public:
  SumChecker(uint32_t iteration, uint32_t bucket, uint32_t workers)
      : iteration_(iteration), bucket_(bucket), workers_(workers) {}

  /// Returns the number of sums[first … end - 1] that differ from the sum over `sources`.
  [[nodiscard]] uint64_t wrong_sums(std::span<const int32_t> sums, uint64_t first, uint64_t end,
                                    const host::SourceSet& sources) const;
  /// Returns the same if only the number of sources is known: 0 if all sums are right for some set
  /// of `count` sources, else the least number of wrong sums for any such set.
  /// @pre At most 32 workers.
  [[nodiscard]] uint64_t wrong_sums_of_some(std::span<const int32_t> sums, uint64_t first,
                                            uint64_t end, uint32_t count) const;

 private:
  const uint32_t iteration_;
  const uint32_t bucket_;
  const uint32_t workers_;
};

}  // namespace tributary::lab
