// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns shares into the integer weights by which all ranks cut alike.
///
/// Shapes:  One weight for each share. The weights have a small sum, so that lists stay readable:
///          shares of 1/3 and four times 1/6 become 2 and four times 1.
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/plan/weights_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tributary::plan {

inline constexpr uint32_t kWeightMax = 65'535;
/// Largest sum of the weights that weights_of() returns.
inline constexpr uint32_t kWeightSumMax = 10'000;
static_assert(kWeightSumMax <= kWeightMax);
/// Largest distance of a weight's share from the share it stands for. Reached with the largest sum.
/// It can multiply the time of a machine whose share is of this size; see weights_within().
inline constexpr double kShareErrorMax = 1.0 / kWeightSumMax;

/// Returns the weights with the smallest sum whose shares are all within kShareErrorMax. A smaller
/// share than that may get weight 0.
/// @param shares Each 0 or above; their sum is 1.
[[nodiscard]] std::vector<uint32_t> weights_of(std::span<const double> shares);

/// The shares that a machine may have.
struct ShareRange {
  double least = 0;
  double most = 1;
};

/// Returns the weights with the smallest sum, up to kWeightMax, whose shares are all in their
/// ranges. Within these it rounds by largest remainder.
/// @param shares Shape [ranges]; their sum is 1.
/// @return nothing if no such sum has these weights.
[[nodiscard]] std::optional<std::vector<uint32_t>> weights_within(
    std::span<const double> shares, std::span<const ShareRange> ranges);

/// Returns each weight's part of the sum. @pre Some weight is not 0.
[[nodiscard]] std::vector<double> shares_of(std::span<const uint32_t> weights);

}  // namespace tributary::plan
