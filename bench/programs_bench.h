// SPDX-License-Identifier: Apache-2.0
/// @file
/// The packet programs on one live core, each against a loop written by hand for the same work. The
/// loops read IPv4 and UDP at fixed offsets. Telemetry's keeps one span for each flow in a record
/// store of the same size; guard's uses the same filter of sources and the same records.
///
/// Method:  UDP frames of 60 bytes from memory. Each flow is equally likely, the worst case for
///          caches. Program and loop in turn, by CPU time; medians over the pairs.
/// Source:  Goals: filter 0.8, telemetry and guard 0.6.
/// Tests:   tests/bench/programs_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

struct ProgramsBenchConfig {
  uint32_t repetitions = 11;
  uint64_t packets_each = 2'000'000;  ///< Packets in one repetition, at least.
  std::vector<uint32_t> flows = {10'000, 1'000'000};
};

struct ProgramsBenchRow {
  std::string program;
  uint32_t flows = 0;
  double mpps = 0;       ///< Median.
  double loop_mpps = 0;  ///< Median.
  double ratio = 0;      ///< mpps / loop_mpps, median over the pairs.
  double ratio_min = 0;
  double ratio_max = 0;
  bool is_correct = false;  ///< Both forwarded and counted the same packets.
};

/// Runs all programs with each number of flows. Calls `progress` before each row with its name.
[[nodiscard]] std::vector<ProgramsBenchRow> run_programs_bench(
    const ProgramsBenchConfig& config, void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<ProgramsBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<ProgramsBenchRow>& rows);

}  // namespace tributary::bench
