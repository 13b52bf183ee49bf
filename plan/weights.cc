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

/// The weights that a machine may have.
struct WeightRange {
  uint32_t least = 0;
  uint32_t most = 0;
};

WeightRange weight_range(const ShareRange& range, uint32_t sum) {
  const double least = range.least * sum;
  const auto down = static_cast<uint32_t>(least);
  return {.least = down + (down < least ? 1 : 0), .most = static_cast<uint32_t>(range.most * sum)};
}

/// Returns whether some weights of this sum are in their ranges.
bool has_weights_within(std::span<const ShareRange> ranges, uint32_t sum) {
  uint64_t least_sum = 0;
  uint64_t most_sum = 0;
  for (const ShareRange& range : ranges) {
    const WeightRange weight = weight_range(range, sum);
    if (weight.least > weight.most) return false;
    least_sum += weight.least;
    most_sum += weight.most;
  }
  return least_sum <= sum && most_sum >= sum;
}

/// Rounds all shares down, as far as the ranges let. Then changes the weight furthest from its
/// share by 1 until the sum is right. @pre has_weights_within() is true.
std::vector<uint32_t> round_within(std::span<const double> shares,
                                   std::span<const ShareRange> share_ranges, uint32_t sum) {
  std::vector<WeightRange> ranges;
  std::vector<uint32_t> weights;
  int64_t rest = sum;
  for (size_t i = 0; i < shares.size(); i++) {
    ranges.push_back(weight_range(share_ranges[i], sum));
    const auto down = static_cast<uint32_t>(shares[i] * sum);
    weights.push_back(std::clamp(down, ranges[i].least, ranges[i].most));
    rest -= weights.back();
  }
  while (rest != 0) {
    const bool up = rest > 0;
    std::optional<size_t> best;
    double missing_most = 0;
    for (size_t i = 0; i < shares.size(); i++) {
      if (weights[i] == (up ? ranges[i].most : ranges[i].least)) continue;
      const double missing = (shares[i] * sum - weights[i]) * (up ? 1 : -1);
      if (best && missing <= missing_most) continue;
      best = i;
      missing_most = missing;
    }
    TRIB_ASSERT(best.has_value());
    if (up) {
      weights[*best]++;
      rest--;
    } else {
      weights[*best]--;
      rest++;
    }
  }
  return weights;
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

std::optional<std::vector<uint32_t>> weights_within(std::span<const double> shares,
                                                    std::span<const ShareRange> ranges) {
  TRIB_ASSERT(!shares.empty() && shares.size() == ranges.size());
  for (uint32_t sum = 1; sum <= kWeightMax; sum++) {
    if (has_weights_within(ranges, sum)) return round_within(shares, ranges, sum);
  }
  return {};
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
