// SPDX-License-Identifier: Apache-2.0
/// @file
/// The speed of one core in the virtual network, on the calendar queue and on a plain binary heap.
///
/// Model:   Each host sends elided packets of one size to its neighbour (star) or to random hosts
///          (leaf–spine, equal-cost choice of spine). Intervals vary by half around the mean for
///          the wanted load. The senders' own events are part of the cost.
/// Units:   A hop is one delivery over one link: two for a packet within a star, four between two
///          leaves. Seconds are CPU time of this thread.
/// Method:  Calendar and heap in turn, several times; figures are medians. Both must reach the same
///          digest over all deliveries.
/// Source:  Goals: 10 million hops per second in the star, 4 million on 576 hosts.
/// Tests:   tests/bench/net_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

/// One network with its load.
struct NetBenchLoad {
  std::string topology;  ///< "star-6" or "leaf-spine-576".
  uint32_t payload_bytes = 0;
};

struct NetBenchConfig {
  /// Trio-ML packets of 1024 and of 64 gradients, each with a header of 12 bytes.
  std::vector<NetBenchLoad> loads{
      {"star-6", 4108}, {"star-6", 268}, {"leaf-spine-576", 4108}, {"leaf-spine-576", 268}};
  uint32_t repetitions = 5;
  uint64_t packets_each = 1'000'000;  ///< Packets that all hosts together send in one repetition.
};

/// One line of the result.
struct NetBenchRow {
  std::string topology;
  uint32_t hosts = 0;
  uint32_t payload_bytes = 0;
  uint64_t hops = 0;  ///< In one repetition.
  double hops_per_s = 0;
  double ns_per_hop = 0;
  double ns_per_hop_min = 0;
  double ns_per_hop_max = 0;
  double heap_ns_per_hop = 0;
  double ratio = 0;  ///< heap / calendar, median over the pairs.
  uint64_t digest = 0;
  bool digests_agree = false;
};

[[nodiscard]] std::vector<NetBenchRow> run_net_bench(const NetBenchConfig& config,
                                                     void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<NetBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<NetBenchRow>& rows);

}  // namespace tributary::bench
