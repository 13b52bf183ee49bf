// SPDX-License-Identifier: Apache-2.0
#include "plan/part_cutter.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace tributary::plan {

/// One aggregator's claim to a part of the tensor.
struct PartCutter::Claim {
  uint32_t aggregator = 0;
  Wide size = 0;        ///< Relative to the other claims.
  uint64_t blocks = 0;  ///< Given to it.
};

PartCutter::PartCutter(std::vector<uint32_t> weights)
    : weights_(std::move(weights)),
      weight_sum_(std::accumulate(weights_.begin(), weights_.end(), uint64_t{0})),
      credits_(weights_.size(), 0) {
  TRIB_ASSERT(weight_sum_ > 0);
}

/// Returns whether every aggregator's share of the tensor has kPartBlocksMin blocks.
bool PartCutter::is_large(uint64_t blocks) const {
  return std::all_of(weights_.begin(), weights_.end(), [&](uint32_t weight) {
    return weight == 0 || Wide{blocks} * weight / weight_sum_ >= kPartBlocksMin;
  });
}

/// Returns the claims by weight alone.
std::vector<PartCutter::Claim> PartCutter::quotas() const {
  std::vector<Claim> claims;
  for (uint32_t i = 0; i < weights_.size(); i++) {
    if (weights_[i] > 0) claims.push_back({.aggregator = i, .size = weights_[i]});
  }
  return claims;
}

/// Returns the claims to a tensor whose elements the credits already count, ascending by
/// aggregator.
std::vector<PartCutter::Claim> PartCutter::claims_for(uint64_t blocks) const {
  std::vector<Claim> claims = quotas();
  if (is_large(blocks)) return claims;
  Wide sum = 0;
  for (Claim& claim : claims) {
    claim.size = credits_[claim.aggregator];
    sum += claim.size;
  }
  // Equal claims in the order of the list.
  std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
    return a.size != b.size ? a.size > b.size : a.aggregator < b.aggregator;
  });
  // The smallest claim goes until the smallest that is left is worth kPartBlocksMin blocks.
  const auto too_small = [&] { return Wide{blocks} * claims.back().size < kPartBlocksMin * sum; };
  while (claims.size() > 1 && (blocks == 0 || too_small())) {
    sum -= claims.back().size;
    claims.pop_back();
  }
  if (claims.size() == 1) claims.front().size = 1;  // An empty tensor has claims of 0.
  std::sort(claims.begin(), claims.end(),
            [](const Claim& a, const Claim& b) { return a.aggregator < b.aggregator; });
  return claims;
}

/// Gives every block to a claim: in proportion to the claims' sizes, rounded down, and then one
/// more block to each of the claims with the largest credits.
void PartCutter::share_out(uint64_t blocks, uint32_t gradients, std::vector<Claim>& claims) const {
  Wide sum = 0;
  for (const Claim& claim : claims) sum += claim.size;
  uint64_t left = blocks;
  std::vector<std::pair<Wide, Claim*>> credits;
  for (Claim& claim : claims) {
    claim.blocks = static_cast<uint64_t>(Wide{blocks} * claim.size / sum);
    left -= claim.blocks;
    const Wide given = Wide{claim.blocks} * gradients * weight_sum_;
    credits.emplace_back(credits_[claim.aggregator] - given, &claim);
  }
  std::sort(credits.begin(), credits.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  TRIB_ASSERT(left < claims.size() || blocks == 0);
  for (size_t i = 0; i < left; i++) credits[i].second->blocks++;
}

std::vector<Part> PartCutter::cut(uint64_t element_count, uint32_t gradients,
                                  uint32_t bytes_per_element) {
  TRIB_ASSERT(gradients > 0 && bytes_per_element > 0);
  const uint64_t blocks = element_count / gradients + (element_count % gradients > 0 ? 1 : 0);
  const uint64_t blocks_max =
      std::max<uint64_t>(kPartBytesMax / (uint64_t{gradients} * bytes_per_element), 1);
  for (size_t i = 0; i < weights_.size(); i++) credits_[i] += Wide{element_count} * weights_[i];
  std::vector<Claim> claims = claims_for(blocks);
  share_out(blocks, gradients, claims);

  std::vector<Part> parts;
  uint64_t first = 0;
  for (const Claim& claim : claims) {
    const uint64_t pieces = std::max<uint64_t>((claim.blocks + blocks_max - 1) / blocks_max, 1);
    for (uint64_t i = 0; i < pieces; i++) {
      const uint64_t part_blocks = claim.blocks / pieces + (i < claim.blocks % pieces ? 1 : 0);
      const uint64_t count = std::min(part_blocks * gradients, element_count - first);
      parts.push_back(
          {.aggregator = claim.aggregator, .element_first = first, .element_count = count});
      credits_[claim.aggregator] -= Wide{count} * weight_sum_;
      first += count;
    }
  }
  return parts;
}

}  // namespace tributary::plan
