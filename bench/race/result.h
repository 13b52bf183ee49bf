// SPDX-License-Identifier: Apache-2.0
/// @file
/// Laps, and the row that sums up all laps of a case.
///
/// Units:   Seconds, bytes, CPU seconds per GB (10^9 bytes), as the names say. All figures are for
///          one all-reduce, however many a lap had.
/// Threads: None; plain values and pure functions.
/// Errors:  None. A case without laps has no row.
/// Tests:   tests/bench/race/result_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/race/client/control.h"

namespace tributary::race {

/// A case of the race: each system has one row for it.
struct RaceCase {
  std::string net;  ///< A NetKind's name.
  uint32_t workers = 4;
  uint64_t bytes = 1'000'000;  ///< Size of the tensor as float32.
  uint32_t wire = 32;          ///< Bits of an element on the wire; 16: peers reduce float16.
  double loss = 0;
  bool straggler = false;  ///< The last worker starts a second late.
  /// Spare machines with an aggregator, where NetKind::all_shaped; 0 for systems without
  /// aggregators.
  uint32_t servers = 0;

  /// Bytes of the tensor's elements on the wire.
  [[nodiscard]] uint64_t wire_bytes() const { return bytes / 32 * wire + bytes % 32 * wire / 32; }

  friend bool operator==(const RaceCase&, const RaceCase&) = default;
};

/// One lap of one system, all workers together.
struct Lap {
  uint32_t round = 0;          ///< Laps of one round are close in time.
  double seconds = 0;          ///< From the first worker's start to the last one's end.
  double worker_cpu_s = 0;     ///< Mean over workers.
  double total_cpu_s = 0;      ///< Workers, servers and the kernel's packet threads.
  double colocated_cpu_s = 0;  ///< CPU time of a worker machine's aggregator, mean over machines.
  double link_bytes = 0;       ///< Received and sent by a worker's interface, mean.
  uint64_t wrong = 0;          ///< Elements, over all workers.
  uint64_t partial = 0;        ///< Elements that lack the late worker, over all workers.
  bool ranks_differ = false;   ///< Two workers have results that differ in a bit.
};

/// CPU time of all processes but the workers.
struct ServerCpu {
  double colocated_s = 0;  ///< CPU time of the aggregators on workers' machines.
  double other_s = 0;      ///< CPU time of the other servers and the kernel's packet threads.
};

/// Combines the workers' reports of one lap.
/// @param reports      One for each worker; not empty.
/// @param cpu          CPU time of other processes during the lap.
/// @param reductions   All-reduces in the lap.
/// @param last_is_late Ignores the last worker's time, because it contains its pause.
[[nodiscard]] Lap lap_of(std::span<const LapReport> reports, const ServerCpu& cpu,
                         uint32_t reductions, bool last_is_late);

struct RaceRow {
  std::string system;
  RaceCase race;
  double median_s = 0;
  /// Distance between the quartiles, as a part of the median: at 0.1, half of the laps lie within
  /// about 5 % of it.
  double spread = 0;
  double worker_cpu_s_per_gb = 0;     ///< A worker's CPU time over its tensor's size.
  double total_cpu_s_per_gb = 0;      ///< All CPU time over the size of all workers' tensors.
  double colocated_cpu_s_per_gb = 0;  ///< The same for a worker machine's aggregator.
  double link_bytes = 0;
  uint64_t wrong = 0;
  uint64_t partial = 0;
  uint64_t laps_differ = 0;  ///< Laps in which two workers have results that differ in a bit.
  std::vector<double> round_medians_s;  ///< One for each round with laps.
};

/// Returns medians over the laps; nothing if there are none.
[[nodiscard]] std::optional<RaceRow> row_of(const std::string& system, const RaceCase& race,
                                            std::span<const Lap> laps);

/// The time of `a` over the time of `b`, round by round.
struct PairedRatio {
  double median = 0;
  double min = 0;
  double max = 0;
};
/// Returns nothing if the rows have different numbers of rounds.
[[nodiscard]] std::optional<PairedRatio> paired_ratio(const RaceRow& a, const RaceRow& b);

/// Returns the bytes on a link for each byte of payload, in full TCP segments with time stamps:
/// 1514 / 1448 with an MTU of 1500. A shaper counts frames without preamble and checksum.
[[nodiscard]] double wire_ratio(uint32_t mtu_bytes);

/// Returns the seconds that one tensor's bits take on a worker's link at `mbit`. No all-reduce can
/// be faster, because each worker has to send its tensor once.
[[nodiscard]] double link_seconds(uint64_t bytes, uint32_t mbit, uint32_t mtu_bytes);

}  // namespace tributary::race
