// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a `tributary worker` did: one structure, shown to people as a table and to programs as
/// JSON.
///
/// Units:  Seconds, milliseconds and GB (10^9 bytes) in what is shown, as the names say.
/// Tests:  tests/cli/worker_result_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "cli/worker_options.h"
#include "host/communicator.h"

namespace tributary::cli {

/// Exit status of a program that a person has stopped: 128 + SIGINT, as shells have it.
inline constexpr int kExitInterrupted = 130;

/// WorkerResult::status of a run that went well, and of one that a person ended.
inline constexpr const char* kStatusOk = "ok";
inline constexpr const char* kStatusInterrupted = "interrupted";

struct WorkerResult {
  WorkerOptions options;
  bool interrupted = false;
  /// One of the two above, a host::Status, "not started" or "output not written".
  std::string status = kStatusOk;
  std::string error;  ///< One line; empty if ok.

  uint64_t iterations = 0;  ///< All-reduces that ended well.
  uint64_t checked = 0;     ///< Elements compared with what they should be.
  uint64_t wrong = 0;       ///< Of these, different in any bit.
  uint64_t degraded_elements = 0;
  uint32_t threads = 1;  ///< As agreed.
  host::CommunicatorCounters counters;

  Duration busy;                    ///< With at least one all-reduce on its way.
  Duration wall;                    ///< From the first all-reduce to the end, sleeps included.
  std::vector<Duration> latencies;  ///< Of each all-reduce, from its call until wait() returned.
};

/// Of a set of durations, by nearest rank; zeros for none.
struct LatencySummary {
  Duration min, p50, p99, max;
};
[[nodiscard]] LatencySummary summarize(std::vector<Duration> latencies);

/// Tensor bytes of all iterations over the busy time, in 10^9 bytes a second.
[[nodiscard]] double goodput_gbytes_per_second(const WorkerResult& result);

/// 0 only if everything was done and no element was wrong.
[[nodiscard]] int exit_code(const WorkerResult& result);

[[nodiscard]] nlohmann::ordered_json to_json(const WorkerResult& result);
/// A few lines, each ended by a newline.
[[nodiscard]] std::string to_table(const WorkerResult& result);

/// Writes to_json() to options.json_path, if that is set. @return the error line, or empty.
[[nodiscard]] std::string write_json(const WorkerResult& result);

}  // namespace tributary::cli
