// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench race`: Tributary against what users would pick instead, on one machine, in one
/// run.
///
/// Model:   For each case (network, workers, size, loss, straggler) the systems take turns, round
///          by round, so that a machine whose speed drifts is slow for all of them. A turn starts
///          fresh processes and has a lap that does not count.
/// Source:  The method and its traps: docs/benchmarks.md.
/// Threads: One, besides the processes it starts.
/// Errors:  A configuration that cannot be is refused before anything starts. A system that cannot
///          take part, or fails, is left out of that case with a line in RaceResult::left_out.
/// Tests:   tests/bench/race/race_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/race/machine.h"
#include "bench/race/result.h"
#include "bench/race/systems.h"

namespace tributary::race {

struct RaceConfig {
  std::vector<std::string> systems;  ///< Empty: all.
  std::vector<std::string> nets{"lo", "netns", "netns-1gbit"};
  std::vector<uint32_t> workers{4};                    ///< 2 … kWorkersMax each.
  std::vector<uint64_t> bytes{1'000'000, 10'000'000};  ///< Multiples of 4, up to 400 MB.
  std::vector<double> losses{0.0};                     ///< 0 … 0.5 each.
  bool straggler = false;                              ///< Also with a late worker, without loss.
  uint32_t rounds = 3;
  uint32_t laps = 0;      ///< A turn's; 0: by the tensor's size.
  std::string tributary;  ///< The program; empty: the running one.
};

/// Refuses a value that cannot be, by its flag.
Result<void> check(const RaceConfig& config);

/// All combinations, in the order in which they are run.
[[nodiscard]] std::vector<RaceCase> cases_of(const RaceConfig& config);

struct LeftOut {
  std::string system;  ///< Empty: all of them.
  RaceCase race;
  std::string why;
};

struct RaceResult {
  Machine machine;
  double handoff_before_ns = 0;  ///< A cache line, one way, between two cores.
  double handoff_after_ns = 0;
  double load_after = 0;
  double seconds = 0;
  bool interrupted = false;
  std::vector<RaceRow> rows;
  std::vector<LeftOut> left_out;
};

struct RaceHooks {
  std::function<void(const std::string&)> progress;  ///< A line for people, now and then.
  std::function<bool()> interrupted;                 ///< True ends the race; rows so far stand.
};

/// Runs a configuration that check() has passed.
[[nodiscard]] RaceResult run_race(const RaceConfig& config, const RaceHooks& hooks);

/// No element of any sum was wrong, and at least one case has a row.
[[nodiscard]] bool all_right(const RaceResult& result);

}  // namespace tributary::race
