// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench race`: compares Tributary with its alternatives on one machine in one run.
///
/// Model:   For each case (network, workers, size, loss, straggler) the systems take turns, round
///          by round. So a drift of the machine's speed affects all of them. Tributary has a turn
///          for each number of servers. Each turn starts new processes and runs a warm-up lap.
/// Source:  docs/benchmarks.md describes the method and its pitfalls.
/// Threads: One, besides the processes that it starts.
/// Errors:  check() refuses a bad configuration. A system that cannot run, or fails, is left out of
///          that case, with an entry in RaceResult::left_out.
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
  std::vector<std::string> nets{"netns-1gbit-equal", "lo", "netns", "netns-1gbit"};
  std::vector<uint32_t> workers{4};                    ///< 2 … kWorkersMax each.
  std::vector<uint64_t> bytes{1'000'000, 10'000'000};  ///< Multiples of 4, up to 400 MB.
  std::vector<uint32_t> wires{32};                     ///< 32 and 16.
  std::vector<double> losses{0.0};                     ///< 0 … 0.5 each.
  bool straggler = false;                              ///< Add cases with a late worker, without
                                                       ///< loss.
  std::vector<uint32_t> servers;  ///< Spare machines, 0 … kSparesMax each, on networks where all
                                  ///< links are shaped. Empty: none there.
  uint32_t rounds = 3;
  uint32_t laps = 0;      ///< In each turn; 0: chosen by the tensor's size.
  std::string tributary;  ///< Path of the program; empty: the running one.
};

/// Refuses a value that is not allowed, and names its flag.
Result<void> check(const RaceConfig& config);

/// Returns all combinations, in the order in which they run; `servers` is 0 in each.
[[nodiscard]] std::vector<RaceCase> cases_of(const RaceConfig& config);

/// A system in a case, with its number of servers.
struct Entry {
  const System* system;
  RaceCase race;
};
/// Returns the systems that take turns in a case. Tributary appears once for each number of
/// servers, where the network's links are all shaped; the others appear once, with 0.
[[nodiscard]] std::vector<Entry> entries_of(const RaceConfig& config, const RaceCase& race);

struct SkippedCase {
  std::string system;  ///< Empty: all systems.
  RaceCase race;
  std::string why;
};

struct RaceResult {
  Machine machine;
  double handoff_before_ns = 0;  ///< One-way time of a cache line between two cores.
  double handoff_after_ns = 0;
  double load_after = 0;
  double seconds = 0;
  bool interrupted = false;
  std::vector<RaceRow> rows;
  std::vector<SkippedCase> left_out;
};

struct RaceHooks {
  std::function<void(const std::string&)> progress;  ///< Called with a line for people from time to
                                                     ///< time.
  std::function<bool()> interrupted;                 ///< True ends the race; rows so far are kept.
};

/// Runs a configuration that check() has accepted.
[[nodiscard]] RaceResult run_race(const RaceConfig& config, const RaceHooks& hooks);

/// Returns true if no element of any sum was wrong and at least one case has a row.
[[nodiscard]] bool all_sums_correct(const RaceResult& result);

}  // namespace tributary::race
