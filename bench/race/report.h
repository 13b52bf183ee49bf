// SPDX-License-Identifier: Apache-2.0
/// @file
/// A race's result for people (table, comparison, limits), for programs (JSON) and as plots (SVG).
///
/// Shapes:  JSON rows have exactly `system`, `net`, `workers`, `bytes`, `loss`, `median_s`,
///          `spread`, `worker_cpu_s_per_GB`, `total_cpu_s_per_GB`, `link_bytes`, `wrong`. The net
///          of a case with a late worker ends in "+straggler". `link_bytes` is null over shared
///          memory.
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

/// Compares Tributary with the others in one case.
struct Comparison {
  RaceCase race;
  std::string fastest_peer;  ///< Of the TCP systems; for shared memory, on loopback.
  PairedRatio to_peer;       ///< Tributary's time over the peer's.
  double cpu_to_peer = 0;    ///< CPU time of a worker over the peer's.
  double to_server = 0;      ///< Over the parameter server's time; 0: it did not run.
  double to_link = 0;        ///< Over the link's time for the bits; 0: unshaped.
};
[[nodiscard]] std::vector<Comparison> compare(const RaceResult& result);

/// Returns the limits of the figures on this machine and for these cases, one line each.
[[nodiscard]] std::vector<std::string> limits_of(const RaceResult& result);

}  // namespace tributary::race
