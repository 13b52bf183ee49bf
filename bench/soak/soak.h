// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench soak`: runs one server at and beyond its capacity while workers join and leave,
/// and checks that it still works as well as in the first cycle.
///
/// Model:   Cycles of two phases. In "capacity", some jobs reduce back to back. In "overload",
///          twice as many do, with windows of twice the room of the server's socket (incast). Half
///          of them end sessions all the time. Then each job has one quiet session.
///          docs/benchmarks.md lists the verdicts and their limits.
/// Units:   As the names say; GB is 10^9 bytes.
/// Threads: The calling one and the workers'.
/// Errors:  A server that does not start or answer. Everything else is in the result.
/// Tests:   tests/bench/soak/soak_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/long_run.h"

namespace tributary::soak {

struct SoakConfig {
  uint32_t seconds = 30;       ///< Approximate; runs whole cycles, at least two.
  uint32_t jobs = 2;           ///< At capacity; twice as many in overload. 1 … 64.
  uint32_t workers = 4;        ///< In each job; 2 … 16.
  uint64_t bytes = 1'000'000;  ///< Of each tensor; a multiple of 4.
  uint32_t phase_ms = 2500;    ///< Length of a phase; two make a cycle.
  bool trains = true;          ///< Workers send trains of packets (UDP_SEGMENT).
  std::string tributary;       ///< Program of the server.
};

/// Goodput that overload must keep, and the largest change of memory. Source: the project's goals.
inline constexpr double kGoodputKept = 0.9;
inline constexpr double kMemoryWithin = 0.01;

/// Most packets that a sender passes to the kernel as one train. Source: io/udp/udp_sender.h.
inline constexpr int64_t kTrainPackets = 64;

/// The result of one cycle.
struct Cycle {
  double capacity_gb_per_s = 0;  ///< Reduced tensor bytes of all workers.
  double overload_gb_per_s = 0;
  uint64_t resident_bytes = 0;  ///< At its end, without workers.
  uint64_t buffers_free = 0;
  uint64_t blocks_open = 0;
};

struct SoakResult {
  std::vector<Cycle> cycles;
  double seconds = 0;
  bool interrupted = false;
  bool trains = true;  ///< As configured.
  uint64_t reductions = 0;
  uint64_t wrong = 0;
  uint64_t sessions = 0;
  uint64_t broken = 0;  ///< All-reduces that ended because a worker left on purpose.
  uint64_t failed = 0;  ///< All other failures.
  std::string first_failure;
  uint64_t packets_sent = 0;
  uint64_t packets_taken = 0;
  uint64_t drops = 0;  ///< By the server's sockets: packets or, with trains, trains.
  uint64_t retransmitted = 0;

  /// Returns the median over the cycles of overload / capacity.
  [[nodiscard]] double goodput_kept() const;
  /// Returns the largest relative difference of a later cycle's memory from the first cycle's.
  [[nodiscard]] double memory_change() const;
  /// Returns the free buffers lost since the first cycle plus the blocks that are still open.
  [[nodiscard]] uint64_t leaked() const;
  /// Returns the packets that were sent but neither received nor covered by the counted drops.
  /// Negative if more were received or dropped than sent.
  [[nodiscard]] int64_t packets_uncounted() const;
};

[[nodiscard]] std::vector<bench::Verdict> verdicts(const SoakResult& result);

/// Refuses a value that is not allowed, and names its flag.
Result<void> check(const SoakConfig& config);
/// An interrupt ends the soak after the current phase. Returns the errors of check(), too.
Result<SoakResult> run_soak(const SoakConfig& config, const bench::LongRunHooks& hooks);

[[nodiscard]] std::string as_table(const SoakResult& result);
[[nodiscard]] nlohmann::ordered_json as_json(const SoakResult& result);

}  // namespace tributary::soak
