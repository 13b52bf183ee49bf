// SPDX-License-Identifier: Apache-2.0
/// @file
/// The share of an asynchronous job's parameters that one of several aggregators keeps.
///
/// Model:   The blocks of the parameters are divided in the order of the job's list of aggregators,
///          in proportion to their weights. Workers and aggregators compute the same blocks.
/// Units:   Weights have no unit; blocks.
/// Threads: Pure functions.
/// Errors:  is_possible() is false for weights that no list has.
/// Source:  BytePS §4.1 assigns partitions by weight, §5 keeps the parameters at the service.
/// Tests:   tests/wire/parameter_share_test.cc
#pragma once

#include <cstdint>

namespace tributary::wire {

struct ParameterShare {
  uint64_t before = 0;  ///< The weights of all earlier aggregators in the list, summed.
  uint32_t own = 1;     ///< This aggregator's weight.
  uint64_t all = 1;     ///< The weights of all aggregators, summed.

  bool operator==(const ParameterShare&) const = default;
  [[nodiscard]] constexpr bool is_possible() const {
    return own > 0 && own <= all && before <= all - own;
  }
};

/// Consecutive blocks: first … end - 1.
struct BlockRange {
  uint64_t first = 0;
  uint64_t end = 0;

  bool operator==(const BlockRange&) const = default;
  [[nodiscard]] constexpr uint64_t count() const { return end - first; }
};

/// Returns the blocks of a share. The ranges of consecutive shares meet, and cover all blocks.
/// @pre share.is_possible()
[[nodiscard]] constexpr BlockRange blocks_of(const ParameterShare& share, uint64_t blocks) {
  __extension__ using Wide = unsigned __int128;
  const auto until = [&](uint64_t weight) {
    return static_cast<uint64_t>(Wide{blocks} * weight / share.all);
  };
  return {.first = until(share.before), .end = until(share.before + share.own)};
}

}  // namespace tributary::wire
