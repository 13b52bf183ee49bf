// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary bench observe`: the cost of metrics, dashboard and recorder for a core.
///
/// Model:   A whole appliance over packets in memory (bench/replay_load.h). Observed, it records
///          its events, keeps its history, and answers each second a scrape of /metrics and the
///          three questions of an open dashboard over HTTP. Alone, it does none of that.
/// Method:  Both in turn, several times; packets per second of the core's CPU time. The ratio is
///          the median over the pairs. Every packet must have been aggregated.
/// Source:  Goal: 0.98 at 64 and at 1,024 gradients.
/// Tests:   tests/cli/bench/bench_observe_test.cc (small)
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tributary::cli {

struct ObserveBenchConfig {
  std::vector<uint32_t> gradients{64, 1024};
  uint32_t window = 4096;
  uint32_t sources = 4;
  uint32_t rounds = 15;
  Duration round = milliseconds(3000);  ///< Each way; a scrape each second.
  uint32_t record_events = 1U << 15;
};

/// One line of the result.
struct ObserveBenchRow {
  uint32_t gradients = 0;
  uint32_t window = 0;
  double alone_mpps = 0;  ///< Million packets per second of CPU time, median.
  double observed_mpps = 0;
  double ratio = 0;  ///< observed / alone, median over the pairs.
  double ratio_min = 0;
  double ratio_max = 0;
  double recorder_ratio = 0;  ///< The same with the recorder only, without HTTP requests.
  uint64_t answers = 0;       ///< HTTP answers of all rounds.
  /// Answers to requests without a pause, in one more round on the loaded core.
  uint64_t api_answers = 0;
  double api_median_ms = 0;
  double api_longest_ms = 0;
  uint64_t events = 0;      ///< Recorded, of all rounds.
  bool is_correct = false;  ///< Each packet was aggregated, and each question answered.
};

/// @param progress Called before each row with a line for people.
[[nodiscard]] Result<std::vector<ObserveBenchRow>> run_observe_bench(
    const ObserveBenchConfig& config, void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<ObserveBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<ObserveBenchRow>& rows);

void add_observe_bench(CLI::App& command, int& exit_code);

}  // namespace tributary::cli
