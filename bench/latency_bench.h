// SPDX-License-Identifier: Apache-2.0
/// @file
/// The time of one block from packet to result on an idle server, against an echo of its bytes.
///
/// Model:   One source with one block in flight. The client spins until the answer arrives, from a
///          spinning live engine or from a thread that only echoes. Two paths: plain UDP sockets on
///          loopback, and a vhost-user wire between DPDK ports. Neither uses io/local's rings.
/// Method:  Server and echo in turn, each with a new thread. Figures are medians over the rounds'
///          percentiles. Needs two idle processors; with fewer, it measures the scheduler.
/// Errors:  Returns a socket's error. An answer later than 100 ms counts as lost. Without DPDK, the
///          result gives the reason for leaving out shared memory.
/// Source:  Goal: at most 1.5 times the echo's p50.
/// Tests:   tests/bench/latency_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::bench {

struct LatencyBenchConfig {
  uint32_t gradients = 352;  ///< As many as fit an MTU of 1500.
  uint32_t rounds = 9;
  uint32_t blocks_each = 1'000;  ///< In each round, after as many for warm-up.
};

/// Figures of one path.
struct LatencyFigures {
  double p50_us = 0;
  double p99_us = 0;
  uint64_t lost = 0;
};

struct LatencyPath {
  std::string name;  ///< "udp" or "shared-memory".
  LatencyFigures aggregation;
  LatencyFigures echo;
  double ratio = 0;  ///< aggregation / echo at p50, median over the rounds.
  double ratio_min = 0;
  double ratio_max = 0;
  bool is_correct = false;  ///< Every answer held the sum, which is the contribution.
};

struct LatencyBenchResult {
  LatencyBenchConfig config;
  std::vector<LatencyPath> paths;
  std::string left_out;  ///< Why shared memory was left out; empty if it was not.

  [[nodiscard]] bool is_correct() const;
};

[[nodiscard]] Result<LatencyBenchResult> run_latency_bench(const LatencyBenchConfig& config);

[[nodiscard]] std::string as_table(const LatencyBenchResult& result);
[[nodiscard]] nlohmann::json as_json(const LatencyBenchResult& result);

}  // namespace tributary::bench
