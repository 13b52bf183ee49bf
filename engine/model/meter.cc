// SPDX-License-Identifier: Apache-2.0
#include "engine/model/meter.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace tributary::engine {

LatencyHistogram::LatencyHistogram() : counts_(64U << kSubBits) {}

uint32_t LatencyHistogram::bucket_of(uint64_t ticks) {
  if (ticks < (uint64_t{1} << kSubBits)) return static_cast<uint32_t>(ticks);
  const auto exponent = static_cast<uint32_t>(std::bit_width(ticks)) - 1;
  const uint32_t shift = exponent - kSubBits;
  const auto mantissa = static_cast<uint32_t>(ticks >> shift) - (1U << kSubBits);
  return ((shift + 1) << kSubBits) + mantissa;
}

uint64_t LatencyHistogram::upper_end(uint32_t bucket) {
  if (bucket < (1U << kSubBits)) return bucket;
  const uint32_t shift = (bucket >> kSubBits) - 1;
  const uint64_t mantissa = (bucket & ((1U << kSubBits) - 1)) + (1U << kSubBits);
  return ((mantissa + 1) << shift) - 1;
}

void LatencyHistogram::add(const LatencyParts& parts, uint64_t weight) {
  const Duration latency = parts.sum();
  counts_[bucket_of(static_cast<uint64_t>(latency.ticks()))] += weight;
  min_ = count_ == 0 ? latency : std::min(min_, latency);
  count_ += weight;
  max_ = std::max(max_, latency);
  for (uint32_t i = 0; i < kLatencyPartCount; i++) {
    sums_.spent[i] += parts.spent[i] * static_cast<int64_t>(weight);
  }
}

Duration LatencyHistogram::percentile(double share) const {
  const auto wanted = static_cast<uint64_t>(share * static_cast<double>(count_));
  uint64_t seen = 0;
  for (uint32_t bucket = 0; bucket < counts_.size(); bucket++) {
    seen += counts_[bucket];
    if (counts_[bucket] == 0 || seen <= wanted) continue;
    return std::min(max_, Duration::from_ticks(static_cast<int64_t>(upper_end(bucket))));
  }
  return max_;
}

LatencySummary LatencyHistogram::summary() const {
  LatencySummary summary;
  summary.count = count_;
  if (count_ == 0) return summary;
  const auto count = static_cast<int64_t>(count_);
  summary.mean = sums_.sum() / count;
  summary.min = min_;
  summary.p50 = percentile(0.5);
  summary.p90 = percentile(0.9);
  summary.p99 = percentile(0.99);
  summary.p999 = percentile(0.999);
  summary.max = max_;
  for (uint32_t i = 0; i < kLatencyPartCount; i++) {
    summary.parts_mean.spent[i] = sums_.spent[i] / count;
  }
  for (uint32_t bucket = 0; bucket < counts_.size(); bucket++) {
    if (counts_[bucket] == 0) continue;
    summary.buckets.push_back(
        {Duration::from_ticks(static_cast<int64_t>(upper_end(bucket))), counts_[bucket]});
  }
  return summary;
}

void OccupancySeries::widen() {
  for (uint32_t i = 0; i < kBins / 2; i++) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
  std::fill(bins_.begin() + kBins / 2, bins_.end(), Duration());
  width_ = width_ * 2;
}

void OccupancySeries::widen_to(Duration width) {
  while (width_ < width) widen();
}

void OccupancySeries::add(Instant begin, Instant end, Duration amount) {
  TRIB_ASSERT(begin <= end);
  total_ += amount;
  const int64_t from = std::max<int64_t>(0, (begin - start_).ticks());
  const int64_t to = std::max(from, (end - start_).ticks());
  while (to >= width_.ticks() * kBins) widen();

  // Even shares. The remainder of the division goes into the last bin, so the sum is exact.
  const int64_t width = width_.ticks();
  const auto first = static_cast<uint32_t>(from / width);
  const auto last = static_cast<uint32_t>(to / width);
  Duration left = amount;
  for (uint32_t bin = first; bin < last; bin++) {
    const int64_t inside = (bin + int64_t{1}) * width - std::max(from, bin * width);
    const double share = static_cast<double>(inside) / static_cast<double>(to - from);
    const auto part =
        Duration::from_ticks(static_cast<int64_t>(share * static_cast<double>(amount.ticks())));
    bins_[bin] += part;
    left += Duration() - part;
  }
  bins_[last] += left;
}

std::vector<Duration> OccupancySeries::bins(Instant until) const {
  const int64_t length = std::max<int64_t>(0, (until - start_).ticks());
  const auto count = std::min<int64_t>(kBins, length / width_.ticks() + 1);
  return {bins_.begin(), bins_.begin() + count};
}

}  // namespace tributary::engine
