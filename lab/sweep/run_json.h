// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run's result as JSON, for files.
///
/// Units:   Keys end with their unit: _ns, _bytes. Times keep whole ticks of 10 ps.
/// Exact:   Equal results give equal bytes. A result read back from its JSON gives the same JSON.
/// Tests:   tests/lab/sweep/run_output_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "lab/result.h"

namespace tributary::lab {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json run_json(const RunResult& result);
[[nodiscard]] Json links_json(const std::vector<LinkResult>& links);
[[nodiscard]] Json aggregators_json(const std::vector<AggregatorResult>& aggregators);

/// Reads a time in nanoseconds. Returns nothing if it is not a number, or longer than the 25 hours
/// that a double holds to the tick.
[[nodiscard]] std::optional<Duration> read_duration(const Json& ns);

/// Reads a result that run_json() wrote. Returns nothing if a key is missing, of another type, or
/// out of its type's range.
[[nodiscard]] std::optional<RunResult> read_run_json(const Json& json);

}  // namespace tributary::lab
