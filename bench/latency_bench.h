// SPDX-License-Identifier: Apache-2.0
/// @file
/// How long one block takes from packet to result on an idle server, beside a bare echo of the same
/// bytes on the same kind of port.
///
/// Model:   One source, one block on its way at a time. The client spins until the answer is there.
///          The answer comes from a live engine that spins on its port (receive, dispatch, program,
///          result), or from a thread that does nothing but send back. Two paths: kernel UDP over
///          loopback, where client and echo are plain sockets, and shared memory (a vhost-user
///          wire), where they are the two calls of a DPDK port.
/// Method:  Server and echo in turn, several rounds each with a thread of its own; percentiles of
///          each round, then the median over the rounds; the ratio is that of each round's p50.
///          Needs two processors to itself: with fewer the figures are those of the scheduler.
/// Errors:  A socket that cannot be opened is returned; an answer that does not come within 100 ms
///          is counted as lost. Without DPDK shared memory is left out, with the reason.
/// Source:  What to reach: 1.5 times the echo's p50.
/// Tests:   tests/bench/latency_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace tributary::bench {

struct LatencyBenchConfig {
  uint32_t gradients = 352;  ///< What fits an MTU of 1500.
  uint32_t rounds = 9;
  uint32_t blocks_each = 1'000;  ///< Of a round, and as many before it that do not count.
};

/// Of one path, in microseconds.
struct LatencyFigures {
  double p50_us = 0;
  double p99_us = 0;
  uint64_t lost = 0;
};

struct LatencyPath {
  std::string name;  ///< "udp" or "shared-memory".
  LatencyFigures aggregation;
  LatencyFigures echo;
  double ratio = 0;  ///< aggregation / echo, p50, median of the rounds.
  double ratio_min = 0;
  double ratio_max = 0;
  bool right = false;  ///< Every answer was the sum, that is the contribution itself.
};

struct LatencyBenchResult {
  LatencyBenchConfig config;
  std::vector<LatencyPath> paths;
  std::string left_out;  ///< Why shared memory is not among them; empty if it is.

  [[nodiscard]] bool right() const;
};

[[nodiscard]] Result<LatencyBenchResult> run_latency_bench(const LatencyBenchConfig& config);

[[nodiscard]] std::string as_table(const LatencyBenchResult& result);
[[nodiscard]] nlohmann::json as_json(const LatencyBenchResult& result);

}  // namespace tributary::bench
