// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of a comparison of telemetry as a table and as JSON.
///
/// Threads: Pure functions.
/// Tests:   tests/lab/telemetry/telemetry_comparison_test.cc
#pragma once

#include <string>

#include "lab/telemetry/telemetry_comparison.h"

namespace tributary::lab {

/// Returns a line about the trace, and a table with one line for each row.
[[nodiscard]] std::string telemetry_text(const TelemetryComparison& settings,
                                         const TelemetryResult& result);
/// Returns an object with the settings, the trace and the rows. A value that a machine does not
/// have is null.
[[nodiscard]] std::string telemetry_json(const TelemetryComparison& settings,
                                         const TelemetryResult& result);

}  // namespace tributary::lab
