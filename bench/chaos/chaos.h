// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench chaos`: kills, pauses and restarts real servers and workers, drops packets, and
/// lets strangers attack, while workers check every sum.
///
/// Model:   One job reduces without end. Fault after fault comes from the schedule; after one that
///          ends the session, all ranks start again. docs/benchmarks.md has the verdicts.
/// Units:   As the names say.
/// Threads: The calling one and the attackers'.
/// Errors:  A server that does not start or answer. Everything else is in the result.
/// Tests:   tests/bench/chaos/chaos_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "auth/mode.h"
#include "base/result.h"
#include "bench/chaos/fault_schedule.h"
#include "bench/long_run.h"

namespace tributary::chaos {

struct ChaosConfig {
  uint32_t seconds = 60;       ///< Approximate; a fault that has begun is finished.
  uint32_t workers = 3;        ///< 2 … 16.
  uint64_t elements = 50'000;  ///< Of each tensor.
  uint32_t deadline_s = 10;    ///< Of each worker.
  uint64_t seed = 1;           ///< Of the faults and the attackers.
  auth::Mode auth = auth::Mode::kNone;
  uint32_t forged_per_s = 1000;
  uint32_t flooded_per_s = 5000;
  std::string network = "auto";  ///< lo, netns, or auto: netns where namespaces can be made.
  std::vector<FaultKind> kinds = all_fault_kinds();
  std::string tributary;  ///< Program of server and workers.
};

/// A worker may end this much later than its deadline. Assumed: for a busy machine.
inline constexpr uint32_t kDeadlineSlackMs = 2000;
/// A server may grow by this much between two observations. Assumed: the pages of its sockets and
/// of the allocator; a leak of one packet in a hundred would exceed it in half a minute.
inline constexpr uint64_t kGrowthBytesMax = 4 << 20;

/// The effects of the faults of one kind, in milliseconds.
struct FaultFigures {
  uint32_t count = 0;
  std::vector<double> notice_ms;    ///< From the fault to the end of each survivor.
  std::vector<double> recovery_ms;  ///< To the next all-reduce of all ranks; see docs.
};

/// The server's process between its first all-reduce and its last observation.
struct ServerLife {
  uint64_t resident_begin = 0;
  uint64_t resident_end = 0;
  uint64_t files_begin = 0;
  uint64_t files_end = 0;

  [[nodiscard]] bool has_leaked() const {
    return files_end > files_begin || resident_end > resident_begin + kGrowthBytesMax;
  }
};

struct ChaosResult {
  ChaosConfig config;
  std::string network;  ///< The one used.
  double seconds = 0;
  bool interrupted = false;
  std::array<FaultFigures, kFaultKindCount> faults;  ///< By FaultKind.
  std::vector<std::string> skipped;                  ///< Kinds that cannot run here, and why.
  std::vector<ServerLife> lives;
  uint64_t reductions = 0;
  uint64_t wrong = 0;
  uint64_t waits_beyond_deadline = 0;
  uint64_t unexpected_ends = 0;  ///< Processes that ended without a fault that ends sessions.
  uint64_t sessions_left = 0;    ///< After all workers have left.
  uint64_t blocks_left = 0;
  uint64_t forged = 0;
  uint64_t flooded = 0;
  std::string first_failure;

  [[nodiscard]] uint64_t leaked() const;
};

[[nodiscard]] std::vector<bench::Verdict> verdicts(const ChaosResult& result);

/// Refuses a value that is not allowed, and names its flag.
Result<void> check(const ChaosConfig& config);
/// An interrupt ends the chaos after the current fault. Returns the errors of check(), too.
Result<ChaosResult> run_chaos(const ChaosConfig& config, const bench::LongRunHooks& hooks);

[[nodiscard]] std::string as_table(const ChaosResult& result);
[[nodiscard]] nlohmann::ordered_json as_json(const ChaosResult& result);

}  // namespace tributary::chaos
