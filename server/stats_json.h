// SPDX-License-Identifier: Apache-2.0
/// @file
/// The counters of an aggregator as JSON, as `tributary serve --json` writes them: made from a
/// snapshot, like the control API's answers.
///
/// Threads: Pure functions.
/// Tests:   tests/server/stats_json_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "io/local/local_server.h"
#include "server/snapshot.h"

namespace tributary::server {

/// Returns the counters of a server of Trio-ML, without "local".
[[nodiscard]] nlohmann::json trio_ml_stats(const Snapshot& snapshot);
/// Returns the counters of a server of SwitchML, without "control".
[[nodiscard]] nlohmann::json switchml_stats(const Snapshot& snapshot);
/// Returns "local": the connections of workers on this machine, and their packets, which "ports"
/// includes.
[[nodiscard]] nlohmann::json local_json(const io::LocalServerStats& stats);

/// Returns "packets" and "bytes" of each outcome by name. Outcomes without bytes have no entry in
/// "bytes".
[[nodiscard]] nlohmann::json counters_json(const Snapshot& snapshot);

}  // namespace tributary::server
