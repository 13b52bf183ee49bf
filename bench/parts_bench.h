// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of the live path one by one, each beside the plainest thing that could stand there.
///
/// - filter: small frames through the filter program; a loop that sends what it receives.
/// - ten jobs: of four sources each, runs shuffled; one job with as many blocks and packets.
/// - two cores: both at once; each alone, over the same memory. Below it the same for the engine's
///   vector loops and for additions in registers, which say what the machine's cores can do at
///   once.
/// - pack, unpack: a tensor into packets' lanes, and back; memcpy of the same pieces.
///
/// Method:  Part and baseline in turn, several times; CPU time of the thread; the ratio is the
///          median over the pairs. Threads that run at once have a CPU each, where there are two.
/// Source:  What to reach: filter 0.5, jobs 0.9, cores 0.85.
/// Tests:   tests/bench/parts_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

struct PartsBenchConfig {
  uint32_t repetitions = 21;
  uint64_t packets_each = 500'000;  ///< Packets of one repetition, where there are packets.
};

/// One part.
struct PartsBenchRow {
  std::string part;
  std::string baseline;  ///< What stands beside it.
  std::string unit;      ///< Of both rates.
  double rate = 0;       ///< Median.
  double baseline_rate = 0;
  double ratio = 0;  ///< rate / baseline_rate, median of the pairs.
  double ratio_min = 0;
  double ratio_max = 0;
  bool right = false;  ///< What came out is what had to.
};

/// Runs all parts. `progress` is called before each with a line for people.
[[nodiscard]] std::vector<PartsBenchRow> run_parts_bench(const PartsBenchConfig& config,
                                                         void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<PartsBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<PartsBenchRow>& rows);

}  // namespace tributary::bench
