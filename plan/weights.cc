// SPDX-License-Identifier: Apache-2.0
#include "plan/weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"

namespace tributary::plan {
namespace {

/// Distributes `sum` by largest remainder: each weight is its share's product rounded down, or up
/// for the shares that rounding down takes most from. Equal remainders go to the first ones.
std::vector<uint32_t> largest_remainder(std::span<const double> shares, uint32_t sum) {
  std::vector<uint32_t> weights;
  std::vector<double> remainders;
  uint32_t left = sum;
  for (const double share : shares) {
    const auto weight = std::min(static_cast<uint32_t>(share * sum), left);
    weights.push_back(weight);
    remainders.push_back(share * sum - weight);
    left -= weight;
  }
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return remainders[a] != remainders[b] ? remainders[a] > remainders[b] : a < b;
  });
  for (size_t i = 0; i < order.size() && left > 0; i++, left--) weights[order[i]]++;
  return weights;
}

/// Returns whether any weights of this sum can come close enough. Cheaper than trying.
bool can_be_close(std::span<const double> shares, uint32_t sum) {
  return std::all_of(shares.begin(), shares.end(), [sum](double share) {
    return std::abs(std::round(share * sum) / sum - share) <= kShareErrorMax;
  });
}

bool is_close(std::span<const double> shares, std::span<const uint32_t> weights, uint32_t sum) {
  for (size_t i = 0; i < shares.size(); i++) {
    if (std::abs(1.0 * weights[i] / sum - shares[i]) > kShareErrorMax) return false;
  }
  return true;
}

}  // namespace

std::vector<uint32_t> weights_of(std::span<const double> shares) {
  TRIB_ASSERT(!shares.empty());
  for (uint32_t sum = 1; sum < kWeightSumMax; sum++) {
    if (!can_be_close(shares, sum)) continue;
    std::vector<uint32_t> weights = largest_remainder(shares, sum);
    if (is_close(shares, weights, sum)) return weights;
  }
  return largest_remainder(shares, kWeightSumMax);
}

std::vector<double> shares_of(std::span<const uint32_t> weights) {
  const auto sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  TRIB_ASSERT(sum > 0);
  std::vector<double> shares;
  for (const uint32_t weight : weights) {
    shares.push_back(static_cast<double>(weight) / static_cast<double>(sum));
  }
  return shares;
}

}  // namespace tributary::plan
