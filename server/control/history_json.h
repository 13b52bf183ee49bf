// SPDX-License-Identifier: Apache-2.0
/// @file
/// A server's history as JSON: the bodies of /v1/history.
///
/// Units:   Durations in milliseconds (`_ms`) or seconds (`_s`).
/// Bounds:  The history of the server has the rows of at most kLateRowsMax sources.
/// Threads: Any.
/// Tests:   tests/server/control/history_test.cc
#pragma once

#include <nlohmann/json.hpp>

#include "server/control/history.h"

namespace tributary::control {

/// Rows of lateness in the server's history.
inline constexpr uint32_t kLateRowsMax = 32;

/// Returns the traffic, and the lateness of those sources that were late most.
[[nodiscard]] nlohmann::json history_json(const History& history);
/// Returns the lateness of all sources of the job, and its stalls; null: the job has no history.
[[nodiscard]] nlohmann::json job_history_json(const History& history, uint32_t job);

}  // namespace tributary::control
