// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts a modelled machine's latencies into a result's.
#pragma once

#include "engine/model/report.h"
#include "lab/result.h"

namespace tributary::lab {

/// Returns the same order statistics.
[[nodiscard]] inline DurationSummary summarise(const engine::LatencySummary& latency) {
  return {.count = latency.count,
          .mean = latency.mean,
          .min = latency.min,
          .p50 = latency.p50,
          .p90 = latency.p90,
          .p99 = latency.p99,
          .max = latency.max};
}

}  // namespace tributary::lab
