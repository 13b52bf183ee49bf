// SPDX-License-Identifier: Apache-2.0
/// @file
/// One turn of one system: its processes are started, run a few laps together, and end.
///
/// Model:   Servers first; when they are ready, the workers, which connect and greet. Then lap by
///          lap: all say "ready", the race says "go", all report. The first lap warms up and does
///          not count. Servers' and packet threads' CPU time is read around each lap.
/// Threads: One. It polls sockets and pipes.
/// Errors:  A process that ends too early, says "failed" or takes too long ends the turn with a
/// line
///          that names it. All processes are gone when run_round() returns.
/// Memory:  A few KB a worker.
/// Tests:   tests/bench/race/race_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/race/network.h"
#include "bench/race/result.h"
#include "bench/race/systems.h"

namespace tributary::race {

struct RoundPlan {
  const System* system;
  RaceCase race;
  uint32_t round = 0;
  uint32_t laps = 3;        ///< That count.
  uint32_t reductions = 1;  ///< All-reduces in each.
};

/// `interrupted` is asked several times a second; true ends the turn.
Result<std::vector<Lap>> run_round(const RoundPlan& plan, const RaceNetwork& network,
                                   const Programs& programs,
                                   const std::function<bool()>& interrupted);

}  // namespace tributary::race
