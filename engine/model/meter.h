// SPDX-License-Identifier: Apache-2.0
/// @file
/// The modelled machine's measurements, in bounded memory: a histogram of latencies and the use of
/// resources over time.
///
/// Threads: One.
/// Tests:   tests/engine/model/meter_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "engine/model/latency_parts.h"
#include "engine/model/report.h"

namespace tributary::engine {

/// Latencies in buckets that grow by 1/32 of a power of two: at most 3.2 % wide.
class LatencyHistogram {
 public:
  LatencyHistogram();

  /// Adds `weight` packets that all took this long.
  void add(const LatencyParts& parts, uint64_t weight);
  [[nodiscard]] LatencySummary summary() const;

 private:
  static constexpr uint32_t kSubBits = 5;

  [[nodiscard]] static uint32_t bucket_of(uint64_t ticks);
  /// Returns the largest number of ticks that falls into the bucket.
  [[nodiscard]] static uint64_t upper_end(uint32_t bucket);
  [[nodiscard]] Duration percentile(double share) const;

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  Duration min_;  ///< Zero while count_ is 0.
  Duration max_;
  LatencyParts sums_;
};

/// The use of a resource over time: a fixed number of bins, which double their width whenever time
/// runs past them.
class OccupancySeries {
 public:
  static constexpr uint32_t kBins = 64;

  /// @param start Where the first bin begins.
  explicit OccupancySeries(Instant start) : start_(start) {}

  /// Records `amount` of work, spread evenly between `begin` and `end` (begin <= end).
  void add(Instant begin, Instant end, Duration amount);

  [[nodiscard]] Duration bin_width() const { return width_; }
  /// Returns the work in each bin up to the last one that `until` reaches.
  [[nodiscard]] std::vector<Duration> bins(Instant until) const;
  /// Widens the bins to at least `width`, so that several series can be shown together.
  void widen_to(Duration width);
  [[nodiscard]] Duration total() const { return total_; }

 private:
  void widen();

  Instant start_;
  Duration width_ = microseconds(100);
  std::array<Duration, kBins> bins_{};
  Duration total_;
};

}  // namespace tributary::engine
