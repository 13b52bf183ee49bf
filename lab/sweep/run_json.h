// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run's result as JSON, for files, and for figures, which are computed from the same text
/// whether a point was just run or was read back.
///
/// Units:   Keys end with theirs: _ns, _bytes. Times have whole ticks of 10 ps behind the point.
/// Exact:   Equal results give equal bytes.
/// Tests:   tests/lab/sweep/run_output_test.cc
#pragma once

#include <nlohmann/json.hpp>

#include "lab/result.h"

namespace tributary::lab {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json run_json(const RunResult& result);

/// In ns, as run_json() writes times.
[[nodiscard]] double json_ns(Duration duration);

}  // namespace tributary::lab
