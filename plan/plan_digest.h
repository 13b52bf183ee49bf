// SPDX-License-Identifier: Apache-2.0
/// @file
/// A number that ranks compare at the join: equal lists of aggregators and weights have equal
/// digests, on every machine and compiler.
///
/// Source:  FNV-1a (base/fnv.h). It finds mistakes; it is not protection against forgers, who
///          cannot join without the session's keys.
/// Threads: Pure functions.
/// Errors:  None.
/// Tests:   tests/plan/plan_digest_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/fnv.h"

namespace tributary::plan {

struct WeightedAggregator {
  std::string_view endpoint;  ///< Alike on all ranks, such as Endpoint::to_string().
  uint32_t weight = 1;
};

/// Returns the digest of the list. The order counts, because ranks name aggregators by position.
[[nodiscard]] constexpr uint64_t plan_digest(std::span<const WeightedAggregator> list) {
  uint64_t digest = kFnvStart;
  for (const WeightedAggregator& aggregator : list) {
    for (const char letter : aggregator.endpoint) {
      digest = fnv_byte(digest, static_cast<uint8_t>(letter));
    }
    digest = fnv_byte(digest, 0);  // Ends the text, so that no two lists have the same bytes.
    for (uint32_t shift = 0; shift < 32; shift += 8) {
      digest = fnv_byte(digest, static_cast<uint8_t>(aggregator.weight >> shift));
    }
  }
  return digest;
}

}  // namespace tributary::plan
