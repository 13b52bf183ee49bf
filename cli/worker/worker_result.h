// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result of a `tributary worker` run: one structure, printed as a table for people and written
/// as JSON for programs.
///
/// Units:   Output is in seconds, milliseconds and GB (10^9 bytes), as its names say.
/// Tests:   tests/cli/worker/worker_result_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/fnv.h"
#include "base/time.h"
#include "cli/worker/worker_options.h"
#include "host/communicator.h"

namespace tributary::cli {

/// Exit status after a person stopped the program: 128 + SIGINT, as in shells.
inline constexpr int kExitInterrupted = 130;

/// WorkerResult::status of a successful run, and of one that a person stopped.
inline constexpr const char* kStatusOk = "ok";
inline constexpr const char* kStatusInterrupted = "interrupted";

struct WorkerResult {
  WorkerOptions options;
  bool interrupted = false;
  /// One of the two above, a host::Status, "not started" or "output not written".
  std::string status = kStatusOk;
  std::string error;  ///< One line; empty if ok.

  uint64_t iterations = 0;  ///< All-reduces that succeeded.
  uint64_t checked = 0;     ///< Elements compared with their expected values.
  uint64_t wrong = 0;       ///< Checked elements that differ in any bit.
  /// Checksum of the checked results, in order (base/fnv.h); equal on ranks of a synchronous job.
  uint64_t checksum = kFnvStart;
  uint64_t degraded_elements = 0;
  // Of an asynchronous job, without the first iteration, which brings the initial values.
  host::Staleness staleness;
  uint64_t staleness_blocks = 0;  ///< The results that `staleness` adds up.
  std::string warning;            ///< The first Outcome::warning; empty if there was none.
  uint32_t threads = 1;           ///< As agreed at the join.
  std::vector<uint32_t> windows;  ///< Window of each channel in packets, as agreed at the join.
  host::CommunicatorCounters counters;

  Duration busy;                    ///< Time with at least one all-reduce in flight.
  Duration wall;                    ///< From the first all-reduce to the end, sleeps included.
  std::vector<Duration> latencies;  ///< From the call of each all-reduce to the return of wait().
  std::vector<Duration> urgent_latencies;  ///< Likewise, for the urgent tensors.
};

/// Summary of a set of durations, by nearest rank; zeros for an empty set.
struct LatencySummary {
  Duration min, p50, p99, max;
};
[[nodiscard]] LatencySummary summarize(std::vector<Duration> latencies);

/// Returns the tensor bytes of all iterations divided by the busy time, in 10^9 bytes a second.
[[nodiscard]] double goodput_gbytes_per_second(const WorkerResult& result);

/// Returns 0 only if all iterations succeeded and no element was wrong.
[[nodiscard]] int exit_code(const WorkerResult& result);

[[nodiscard]] nlohmann::ordered_json to_json(const WorkerResult& result);
/// Returns a few lines, each ended by a newline.
[[nodiscard]] std::string to_table(const WorkerResult& result);

/// Writes to_json() to options.json_path, if that is set.
/// @return the error line, or empty.
[[nodiscard]] std::string write_json(const WorkerResult& result);

}  // namespace tributary::cli
