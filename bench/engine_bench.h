// SPDX-License-Identifier: Apache-2.0
/// @file
/// How fast one core aggregates when packet I/O costs nothing, beside the plainest loop that does
/// the same work.
///
/// Model:   Four sources send a window of blocks, each a burst of 16 at a time, generation after
///          generation; the packets lie prepared in memory. The engine is the whole live core:
///          port, dispatch, program, window, counters, result. The loop is written by hand: slot by
///          block_id, bitmask, vector add, result in network byte order; it checks nothing and
///          keeps nothing. Both use the same vector kernels and read the same packets.
/// Method:  Engine and loop in turn, several times, in CPU time of the thread; the ratio is the
///          median of the ratios pair by pair, because the machine's speed drifts. A checksum over
///          the results must agree.
/// Source:  What to reach: 0.85 of the loop at 1024 gradients, 0.6 at 64.
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
  uint64_t gradients_each = 40'000'000;  ///< Work of one repetition: gradients in packets.
};

/// One line of the result.
struct EngineBenchRow {
  uint32_t gradients = 0;
  uint32_t window = 0;
  double engine_mpps = 0;  ///< Million packets a second, median.
  double loop_mpps = 0;
  double ratio = 0;  ///< engine / loop, median of the pairs.
  double ratio_min = 0;
  double ratio_max = 0;
  double io_mpps = 0;          ///< The in-memory port alone: receive and transmit, no work.
  bool results_agree = false;  ///< Checksums of engine and loop are equal.
};

/// Runs all combinations. `progress` is called before each with a line for people.
[[nodiscard]] std::vector<EngineBenchRow> run_engine_bench(const EngineBenchConfig& config,
                                                           void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<EngineBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<EngineBenchRow>& rows);

}  // namespace tributary::bench
