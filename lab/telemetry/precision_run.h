// SPDX-License-Identifier: Apache-2.0
/// @file
/// One cell on the modelled Tofino: PRECISION, and a controller that reads all slots once a period.
///
/// Threads: One; pure function of its arguments.
/// Tests:   tests/lab/telemetry/telemetry_comparison_test.cc
#pragma once

#include "lab/telemetry/telemetry_comparison.h"

namespace tributary::lab {

/// Runs the trace. The rows have the largest power of two of slots that fits in `memory` and in the
/// chip. @pre check(settings); memory is at least kTelemetryMemoryMin.
[[nodiscard]] Result<TelemetryRow> run_precision(const TelemetryComparison& settings,
                                                 const FlowTruth& truth, uint64_t memory);

}  // namespace tributary::lab
