// SPDX-License-Identifier: Apache-2.0
/// @file
/// The last report of a member about itself: its counts, its rate, and the ranks that it waits for.
///
/// Model:   A worker sends its totals once a second, and when it begins an all-reduce that it
///          samples. A lost report costs nothing. Only pages for people use reports, because a
///          worker may state anything.
/// Threads: Owned by shard 0.
/// Tests:   tests/apps/trio_ml/session/member_report_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

/// Reports that arrive closer together give no rate. Assumed: the first was delayed on its way, so
/// the time between them is not that of their counts.
inline constexpr Duration kReportGapMin = milliseconds(100);

/// Beginnings that are kept. A worker reports at most five a second, and a reader looks each
/// second.
inline constexpr uint32_t kBeginsMax = 8;

/// The beginning of an all-reduce.
struct Begin {
  uint32_t number = 0;  ///< The worker's own count, from 1 on; 0: none.
  Instant at;           ///< Time of arrival of the report.
};

struct MemberReport {
  wire::WorkerReport totals;  ///< Since the session began.
  Instant at;                 ///< Time of arrival; 0: none has come.
  double bytes_per_s = 0;     ///< Between the last two reports.
  double retransmitted_per_s = 0;
  std::array<Begin, kBeginsMax> begins{};  ///< The newest ones, in a ring.
  uint32_t next_begin = 0;                 ///< Place of the next one.

  [[nodiscard]] bool has_arrived() const { return at > Instant(); }

  void take(const wire::WorkerReport& report, Instant now) {
    if (report.begun != 0) begins[next_begin++ % kBeginsMax] = {.number = report.begun, .at = now};
    if (has_arrived() && now - at < kReportGapMin) {
      totals = report;
      return;
    }
    if (has_arrived()) {
      const double seconds = in_seconds(now - at);
      bytes_per_s = growth(totals.bytes, report.bytes) / seconds;
      retransmitted_per_s = growth(totals.retransmitted, report.retransmitted) / seconds;
    }
    totals = report;
    at = now;
  }

 private:
  /// Returns the growth of a total; 0 if it falls, which only a faulty worker reports.
  [[nodiscard]] static double growth(uint64_t before, uint64_t after) {
    return static_cast<double>(after - std::min(before, after));
  }
};

}  // namespace tributary::trio_ml
