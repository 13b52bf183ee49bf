// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench soak`: one server, for as long as one likes, at its capacity and beyond it,
/// with workers that come and go; and the question whether it still works as in the first minute.
///
/// Model:   Cycles of two phases each. In "capacity" some jobs reduce back to back with windows of
///          the library's choice, which fill the machine. In "overload" twice as many jobs want the
///          same, their windows together hold twice what the server's socket has room for (incast),
///          and half of the jobs end their sessions all the time, every second one in the middle of
///          an all-reduce.
///          Then every job has one quiet session, and the server is looked at.
/// Judged:  Goodput in overload against capacity, cycle by cycle; every sum; the server's resident
///          memory against that after the first cycle; blocks and buffers that nobody uses but that
///          are not free; and that each packet the workers sent was taken or counted as dropped.
///          Workers pass the kernel trains of packets, as the library does by default; it counts a
///          dropped train as one, so a drop stands for 1 to kTrainPackets. Without `trains` each
///          drop is one packet and the account is exact.
/// Cannot tell: packets lost on the way down, towards workers whose sockets are gone with their
///          counters; those are repaired by asking again and show as retransmissions.
/// Units:   As the names say; GB is 10^9 bytes.
/// Threads: The calling one, and those of the workers.
/// Errors:  A server that does not start or answer; everything else is in the result.
/// Tests:   tests/bench/soak/soak_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::soak {

struct SoakConfig {
  uint32_t seconds = 30;       ///< About; whole cycles are run, at least two.
  uint32_t jobs = 2;           ///< At capacity; twice as many in overload. 1 … 64.
  uint32_t workers = 4;        ///< A job's; 2 … 16.
  uint64_t bytes = 1'000'000;  ///< A tensor's; a multiple of 4.
  uint32_t phase_ms = 2500;    ///< Of each phase; two make a cycle.
  bool trains = true;          ///< Workers send trains of packets (UDP_SEGMENT).
  std::string tributary;       ///< The program to start as server.
};

/// Goodput that overload must keep, and how flat memory must be. Source: the project's goals.
inline constexpr double kGoodputKept = 0.9;
inline constexpr double kMemoryWithin = 0.01;

/// With trains: most packets that a sender passes to the kernel as one train. Source:
/// io/udp/udp_sender.h.
inline constexpr int64_t kTrainPackets = 64;

/// What one cycle showed.
struct Cycle {
  double capacity_gb_per_s = 0;  ///< Tensor bytes of all workers that were reduced.
  double overload_gb_per_s = 0;
  uint64_t resident_bytes = 0;  ///< At its end, with nobody there.
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
  uint64_t broken = 0;  ///< All-reduces that ended because somebody had gone on purpose.
  uint64_t failed = 0;  ///< Anything else.
  std::string first_failure;
  uint64_t packets_sent = 0;
  uint64_t packets_taken = 0;
  uint64_t drops = 0;  ///< By the server's sockets: packets, or with trains trains of them.
  uint64_t retransmitted = 0;

  /// Median over the cycles of overload / capacity.
  [[nodiscard]] double goodput_kept() const;
  /// Largest difference of any later cycle's memory from the first one's, as a part of it.
  [[nodiscard]] double memory_change() const;
  /// Fewer free buffers than after the first cycle, or blocks that are still open.
  [[nodiscard]] uint64_t leaked() const;
  /// Packets that were sent and neither taken nor among what the counted drops can stand for;
  /// below 0: more taken or dropped than sent.
  [[nodiscard]] int64_t packets_uncounted() const;
};

/// One judgement with its reason.
struct Verdict {
  std::string what;
  bool holds;
  std::string why;
};
[[nodiscard]] std::vector<Verdict> verdicts(const SoakResult& result);

struct SoakHooks {
  std::function<void(const std::string&)> progress;
  std::function<bool()> interrupted;  ///< True ends it after the phase at hand.
};

/// Refuses what cannot be by its flag.
Result<void> check(const SoakConfig& config);
Result<SoakResult> run_soak(const SoakConfig& config, const SoakHooks& hooks);

[[nodiscard]] std::string as_table(const SoakResult& result);
[[nodiscard]] nlohmann::ordered_json as_json(const SoakResult& result);

}  // namespace tributary::soak
