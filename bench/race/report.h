// SPDX-License-Identifier: Apache-2.0
/// @file
/// A race's result for people (table, comparison, limits), for programs (JSON) and as plots (SVG).
///
/// Shapes:  JSON rows have exactly `system`, `net`, `workers`, `servers`, `bytes`, `wire`, `loss`,
///          `median_s`, `optimum_s`, `ratio_to_optimum`, `spread`, `worker_cpu_s_per_GB`,
///          `colocated_cpu_s_per_GB`, `total_cpu_s_per_GB`, `cores_busy`, `link_bytes`, `wrong`,
///          `laps_ranks_differ`. The net of a case with a late worker ends in "+straggler". Null:
///          the network has no such value.
/// Threads: None; pure functions.
/// Errors:  None.
/// Tests:   tests/bench/race/report_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/race/race.h"

namespace tributary::race {

/// Returns the net's name as in results.
[[nodiscard]] std::string net_name(const RaceCase& race);

[[nodiscard]] nlohmann::ordered_json as_json(const RaceResult& result);
/// Returns the machine, every row, comparison(), the systems left out with reasons, and
/// limits_of().
[[nodiscard]] std::string as_table(const RaceResult& result);
/// Plots time over workers for each network and size.
[[nodiscard]] std::string as_svg(const RaceResult& result);

/// Returns optimum_seconds() of the row's case; 0 if a link is unlimited, or if the system is a
/// parameter server, which has neither aggregators on workers' machines nor a ring.
[[nodiscard]] double optimum_of(const RaceRow& row);

/// Compares Tributary with the others in one case.
struct Comparison {
  RaceCase race;
  std::string fastest_peer;  ///< Fastest TCP system; for shared memory, on loopback.
  PairedRatio to_peer;       ///< Tributary's time over the peer's.
  double cpu_to_peer = 0;    ///< CPU time of a worker over the peer's.
  double to_server = 0;      ///< Over the parameter server's time; 0: it did not run.
  double to_link = 0;        ///< Over the link's time for the bits; 0: unshaped.
  double to_optimum = 0;     ///< Over optimum_of(); 0: none.
};
/// Returns one comparison for each row of Tributary. The others' rows have no number of servers.
[[nodiscard]] std::vector<Comparison> compare(const RaceResult& result);

/// Returns the limits of the figures on this machine and for these cases, one line each.
[[nodiscard]] std::vector<std::string> limits_of(const RaceResult& result);

}  // namespace tributary::race
