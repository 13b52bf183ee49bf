// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked values, then a random walk against a sorted list of all latencies.
#include "engine/model/meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

LatencyParts parts_of(Duration tail, Duration dispatch = Duration()) {
  LatencyParts parts;
  parts[LatencyPart::kTail] = tail;
  parts[LatencyPart::kDispatch] = dispatch;
  return parts;
}

TEST(LatencyHistogram, EmptyHistogramIsZero) {
  EXPECT_EQ(LatencyHistogram().summary().count, 0U);
  EXPECT_EQ(LatencyHistogram().summary().min, Duration());
  EXPECT_EQ(LatencyHistogram().summary().p99, Duration());
}

TEST(LatencyHistogram, MeansFollowWeightsAndParts) {
  LatencyHistogram histogram;
  histogram.add(parts_of(nanoseconds(100)), 3);
  histogram.add(parts_of(nanoseconds(200), nanoseconds(300)), 1);
  const LatencySummary summary = histogram.summary();
  EXPECT_EQ(summary.count, 4U);
  EXPECT_EQ(summary.mean, nanoseconds(200));  // (3 x 100 + 500) / 4.
  EXPECT_EQ(summary.min, nanoseconds(100));
  EXPECT_EQ(summary.max, nanoseconds(500));
  EXPECT_EQ(summary.parts_mean[LatencyPart::kTail], nanoseconds(125));
  EXPECT_EQ(summary.parts_mean[LatencyPart::kDispatch], nanoseconds(75));
  ASSERT_EQ(summary.buckets.size(), 2U);
  EXPECT_EQ(summary.buckets[0].count, 3U);
  EXPECT_GE(summary.buckets[0].up_to, nanoseconds(100));
}

TEST(LatencyHistogram, OrderStatisticsOfEqualLatenciesAreAllTheSame) {
  LatencyHistogram histogram;
  // 123.45 ns lies inside a bucket whose upper end is above it.
  const Duration latency = Duration::from_ticks(12'345);
  histogram.add(parts_of(latency), 2);
  const LatencySummary summary = histogram.summary();
  ASSERT_GT(summary.buckets.at(0).up_to, latency);
  EXPECT_EQ(summary.min, latency);
  EXPECT_EQ(summary.p50, latency);
  EXPECT_EQ(summary.p999, latency);
  EXPECT_EQ(summary.max, latency);
  EXPECT_EQ(summary.mean, latency);
}

TEST(LatencyHistogram, PercentilesAreWithinThreePercent) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  LatencyHistogram histogram;
  std::vector<int64_t> all;
  for (uint32_t i = 0; i < 10'000; i++) {
    const int64_t ticks = prng.below(1U << (1 + prng.below(31)));
    all.push_back(ticks);
    histogram.add(parts_of(Duration::from_ticks(ticks)), 1);
  }
  std::sort(all.begin(), all.end());
  const LatencySummary summary = histogram.summary();
  const auto near = [&](Duration found, double share) {
    const auto exact = static_cast<double>(all[static_cast<size_t>(share * 10'000)]);
    EXPECT_GE(static_cast<double>(found.ticks()), exact) << share;
    EXPECT_LE(static_cast<double>(found.ticks()), exact * 1.032 + 1) << share;
  };
  near(summary.p50, 0.5);
  near(summary.p90, 0.9);
  near(summary.p99, 0.99);
  near(summary.p999, 0.999);
  EXPECT_EQ(summary.min.ticks(), all.front());
  EXPECT_EQ(summary.max.ticks(), all.back());
  EXPECT_EQ(summary.mean.ticks(), std::accumulate(all.begin(), all.end(), int64_t{0}) / 10'000);
}

TEST(OccupancySeries, SpreadsWorkOverItsDuration) {
  OccupancySeries series{Instant()};
  // 100 us bins. 20 us of work evenly from 50 us to 250 us: 5, 10, 5.
  series.add(Instant(microseconds(50)), Instant(microseconds(250)), microseconds(20));
  const auto bins = series.bins(Instant(microseconds(290)));
  EXPECT_EQ(bins, (std::vector<Duration>{microseconds(5), microseconds(10), microseconds(5)}));
}

TEST(OccupancySeries, WiderBinsKeepTheSum) {
  OccupancySeries series{Instant()};
  Duration sum;
  for (int64_t at_us = 0; at_us < 100'000; at_us += 7) {
    series.add(Instant(microseconds(at_us)), Instant(microseconds(at_us + 3)), nanoseconds(at_us));
    sum += nanoseconds(at_us);
  }
  EXPECT_EQ(series.total(), sum);
  const auto bins = series.bins(Instant(microseconds(100'010)));
  EXPECT_LE(bins.size(), OccupancySeries::kBins);
  EXPECT_GE(bins.size(), OccupancySeries::kBins / 2);
  EXPECT_EQ(std::accumulate(bins.begin(), bins.end(), Duration(),
                            [](Duration a, Duration b) { return a + b; }),
            sum);
  // Work grew evenly, so the middle bin holds half as much as the last whole one.
  EXPECT_NEAR(static_cast<double>(bins[bins.size() / 2].ticks()) /
                  static_cast<double>(bins[bins.size() - 2].ticks()),
              0.5, 0.05);
}

}  // namespace
}  // namespace tributary::engine
