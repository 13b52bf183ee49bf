// SPDX-License-Identifier: Apache-2.0
/// @file
/// The speed of one aggregating core without packet I/O, against the simplest loop that does the
/// same work.
///
/// Model:   Four sources send a window of blocks in bursts of 16, generation after generation, from
///          packets in memory. The engine is the whole live core. The loop has a slot for each
///          block_id, a bitmask, a vector add and a result in network byte order; it checks and
///          keeps nothing. Both use the same vector kernels and packets.
/// Method:  Engine and loop in turn, several times, in the thread's CPU time. The ratio is the
///          median over the pairs. A checksum over the results must agree.
/// Source:  Goals: 0.85 of the loop at 1024 gradients, 0.6 at 64.
/// Tests:   tests/bench/engine_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

struct EngineBenchConfig {
  std::vector<uint32_t> gradients{64, 256, 1024};
  std::vector<uint32_t> windows{64, 4096};
  uint32_t sources = 4;
  uint32_t repetitions = 21;
  uint64_t gradients_each = 40'000'000;  ///< Gradients in one repetition's packets.
};

/// One line of the result.
struct EngineBenchRow {
  uint32_t gradients = 0;
  uint32_t window = 0;
  double engine_mpps = 0;  ///< Million packets per second, median.
  double loop_mpps = 0;
  double ratio = 0;  ///< engine / loop, median over the pairs.
  double ratio_min = 0;
  double ratio_max = 0;
  double io_mpps = 0;          ///< The in-memory port only: receives and transmits.
  bool results_agree = false;  ///< Engine and loop have equal checksums.
};

/// Runs all combinations. Calls `progress` before each with a line for people.
[[nodiscard]] std::vector<EngineBenchRow> run_engine_bench(const EngineBenchConfig& config,
                                                           void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<EngineBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<EngineBenchRow>& rows);

}  // namespace tributary::bench
