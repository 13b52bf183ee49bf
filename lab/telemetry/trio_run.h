// SPDX-License-Identifier: Apache-2.0
/// @file
/// One cell on the modelled Trio: flow telemetry with its timers, and a collector that adds the
/// records of its IPFIX messages.
///
/// Threads: One; pure function of its arguments.
/// Tests:   tests/lab/telemetry/telemetry_comparison_test.cc
#pragma once

#include "lab/telemetry/telemetry_comparison.h"

namespace tributary::lab {

/// Returns the bytes of a store of `records`: records, hash buckets and REF flags as the store
/// places them, and the flows' keys.
[[nodiscard]] Result<uint64_t> trio_store_bytes(uint32_t records);

/// Runs the trace. The store has the most records that fit in `memory`. Both timeouts are the
/// period: a flow without packets gives its record back after one to two periods.
/// @pre check(settings); memory is at least kTelemetryMemoryMin.
[[nodiscard]] Result<TelemetryRow> run_trio(const TelemetryComparison& settings,
                                            const FlowTruth& truth, uint64_t memory);

}  // namespace tributary::lab
