// SPDX-License-Identifier: Apache-2.0
/// @file
/// Statistics of a value over repetitions of an experiment.
///
/// Errors:  None. With no values, or with a value that is not finite, every statistic is NaN.
/// Threads: None; pure functions.
/// Tests:   tests/lab/report/sample_test.cc
#pragma once

#include <cstdint>
#include <span>

namespace tributary::lab {

struct Sample {
  uint32_t count = 0;
  double mean = 0;
  double deviation = 0;       ///< Standard deviation of one repetition (n - 1); 0 for one.
  double standard_error = 0;  ///< Standard error of the mean: deviation / sqrt(count).
  double low = 0;             ///< Smallest value.
  double high = 0;            ///< Largest value.
};

[[nodiscard]] Sample sample_of(std::span<const double> values);
/// Returns statistics of numerator over denominator, repetition by repetition. A single value is
/// compared with every repetition of the other. @pre Equal lengths, or one of them is 1.
[[nodiscard]] Sample sample_of_ratio(std::span<const double> numerators,
                                     std::span<const double> denominators);

}  // namespace tributary::lab
