// SPDX-License-Identifier: Apache-2.0
/// @file
/// One turn of one system: starts its processes, runs a few laps and ends the processes.
///
/// Model:   Servers start first. When they are ready, the workers start, connect and greet. In each
///          lap all workers say "ready", the race says "go", and all report. The first lap is a
///          warm-up. The CPU time of servers and packet threads is read around each lap.
/// Threads: One. It polls sockets and pipes.
/// Errors:  A process that ends too early, says "failed" or takes too long ends the turn with a
///          line that names it. All processes have ended when run_round() returns.
/// Memory:  A few KB per worker.
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
  uint32_t laps = 3;        ///< Without the warm-up lap.
  uint32_t reductions = 1;  ///< All-reduces in each.
};

/// Runs one turn. Calls `interrupted` several times a second; true ends the turn.
Result<std::vector<Lap>> run_round(const RoundPlan& plan, const RaceNetwork& network,
                                   const Programs& programs,
                                   const std::function<bool()>& interrupted);

}  // namespace tributary::race
