// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random values that are the same on every compiler and machine: exponential gaps and Zipf ranks.
/// The standard library's distributions and logarithms differ between implementations, so this file
/// uses IEEE 754's exact operations (+, -, *, /) only.
///
/// Units:   Rates per second; gaps as Durations, rounded down to a tick.
/// Threads: A ZipfTable never changes after construction.
/// Memory:  A ZipfTable keeps 8 bytes a rank, and 16 more during construction.
/// Source:  Alias method: Walker 1977, in Vose's form (IEEE TSE 1991).
/// Tests:   tests/traffic/sampling_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "base/time.h"

namespace tributary::traffic {

/// Returns ln(x) with an error below 1e-12 + 1e-15 * |ln(x)|. @pre x is a normal number above 0.
[[nodiscard]] double natural_log(double x);

/// Returns e^x with a relative error below 1e-12. @pre |x| <= 700.
[[nodiscard]] double exponential(double x);

/// Returns a gap between arrivals of a Poisson process with `rate` arrivals per second.
/// @pre rate > 0.
[[nodiscard]] Duration poisson_gap(Prng& prng, double rate);

/// Draws ranks 0 to count - 1 with probabilities proportional to 1 / (rank + 1)^exponent.
class ZipfTable {
 public:
  /// @pre 1 <= count, 0 <= exponent <= 5.
  ZipfTable(uint32_t count, double exponent);

  [[nodiscard]] uint32_t draw(Prng& prng) const {
    const uint32_t column = prng.below(static_cast<uint32_t>(columns_.size()));
    return prng.any_u32() < columns_[column].threshold ? column : columns_[column].alias;
  }

 private:
  /// A column stands for its own rank and for one other.
  struct Column {
    uint32_t threshold;  ///< Own share, in 2^-32.
    uint32_t alias;
  };
  std::vector<Column> columns_;  ///< Shape [count].
};

}  // namespace tributary::traffic
