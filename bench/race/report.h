// SPDX-License-Identifier: Apache-2.0
/// @file
/// A race's result for people (table, comparison, what it cannot tell), for programs (JSON) and as
/// plots (SVG).
///
/// Shapes:  JSON rows have exactly `system`, `net`, `workers`, `bytes`, `loss`, `median_s`,
///          `spread`, `worker_cpu_s_per_GB`, `total_cpu_s_per_GB`, `link_bytes`, `wrong`. A case
///          with a late worker has "+straggler" behind its net's name. `link_bytes` is null over
///          shared memory.
/// Threads: None; pure functions.
/// Errors:  None.
/// Tests:   tests/bench/race/report_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/race/race.h"

namespace tributary::race {

/// The net's name as results have it.
[[nodiscard]] std::string net_name(const RaceCase& race);

[[nodiscard]] nlohmann::ordered_json as_json(const RaceResult& result);
/// The machine, every row, who was left out and why, and comparison() and cannot_tell().
[[nodiscard]] std::string as_table(const RaceResult& result);
/// A plot of time over workers for each network and size.
[[nodiscard]] std::string as_svg(const RaceResult& result);

/// Tributary beside the others, case by case.
struct Comparison {
  RaceCase race;
  std::string fastest_peer;  ///< Among those over TCP; for shared memory, those on the loopback.
  PairedRatio to_peer;       ///< Tributary's time over the peer's.
  double cpu_to_peer = 0;    ///< A worker's CPU time over that of the peer's worker.
  double to_server = 0;      ///< Over the parameter server's time; 0: it did not run.
  double to_link = 0;        ///< Over the time that the bits need; 0: links are not shaped.
};
[[nodiscard]] std::vector<Comparison> compare(const RaceResult& result);

/// What the figures cannot tell, on this machine and for these cases; one line each.
[[nodiscard]] std::vector<std::string> cannot_tell(const RaceResult& result);

}  // namespace tributary::race
