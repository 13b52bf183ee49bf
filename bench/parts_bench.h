// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of the live path one by one, each against its simplest replacement.
///
/// - filter: small frames through the filter program; a loop that sends the frames it receives.
/// - ten jobs: four sources each, shuffled runs; one job with as many blocks and packets.
/// - two cores: both at once, then each alone, over the same memory. Two more rows repeat this for
///   the vector loops and for additions in registers: they show what the machine itself allows.
/// - pack, unpack: a tensor into packets' lanes, and back; memcpy of the same pieces.
///
/// Method:  Part and baseline in turn, by CPU time. Threads that run at once have a CPU each.
/// Source:  Goals: filter 0.5, jobs 0.9, cores 0.85.
/// Tests:   tests/bench/parts_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

struct PartsBenchConfig {
  uint32_t repetitions = 21;
  uint64_t packets_each = 500'000;  ///< Packets in one repetition, for parts with packets.
};

/// One part.
struct PartsBenchRow {
  std::string part;
  std::string baseline;  ///< Name of the baseline.
  std::string unit;      ///< Unit of both rates.
  double rate = 0;       ///< Median.
  double baseline_rate = 0;
  double ratio = 0;  ///< rate / baseline_rate, median over the pairs.
  double ratio_min = 0;
  double ratio_max = 0;
  bool is_correct = false;  ///< The output was correct.
};

/// Runs all parts. Calls `progress` after each with its name.
[[nodiscard]] std::vector<PartsBenchRow> run_parts_bench(const PartsBenchConfig& config,
                                                         void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<PartsBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<PartsBenchRow>& rows);

}  // namespace tributary::bench
