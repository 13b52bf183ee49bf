// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recorded delays of workers, from a CSV file (RFC 4180).
///
///   worker,iteration,point,delay_ms       # The header. Rows may come in any order.
///   4,10,0,850                            # Worker 4 sleeps 850 ms at the first delay point of
///                                         # iteration 10 (host/straggler_pattern.h).
///
/// Errors:  One line with file, line, the value and the allowed values. Bounded: a line has at most
///          kLineBytesMax bytes, a file kRowsMax rows, and its delays add up to kTotalMax.
/// Threads: Immutable after read().
/// Tests:   tests/lab/workload/delay_trace_test.cc, tests/fuzz/delay_trace.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/time.h"

namespace tributary::lab {

class DelayTrace {
 public:
  static constexpr size_t kLineBytesMax = 256;
  static constexpr size_t kRowsMax = 1'000'000;
  /// Bound of `iteration`. Source: the key "iterations".
  static constexpr uint64_t kIterationsMax = 1'000'000;
  static constexpr Duration kTotalMax = seconds(1'000'000);

  /// Reads a file. Refuses what cannot be read, rows that are not four numbers in their ranges, and
  /// a delay point that a worker has twice. @param workers Ranks below are allowed.
  [[nodiscard]] static Result<DelayTrace> read(const std::string& path, uint32_t workers);
  /// Reads a stream. @param name For messages.
  [[nodiscard]] static Result<DelayTrace> read(std::istream& lines, const std::string& name,
                                               uint32_t workers);

  /// Returns the delay of a worker; zero where the file has no row.
  /// @param delay_point iteration * host::kDelayPoints + point.
  [[nodiscard]] Duration delay_at(uint32_t worker, uint64_t delay_point) const;
  /// Returns the first iteration that has a row.
  [[nodiscard]] uint64_t first_iteration() const;
  /// Returns the sum of all delays.
  [[nodiscard]] Duration total() const { return total_; }
  [[nodiscard]] size_t row_count() const { return delays_.size(); }

 private:
  [[nodiscard]] Result<void> add(const std::string& line, uint32_t workers);

  std::map<std::pair<uint32_t, uint64_t>, Duration> delays_;  ///< By worker and delay point.
  Duration total_;
};

}  // namespace tributary::lab
