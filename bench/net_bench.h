// SPDX-License-Identifier: Apache-2.0
/// @file
/// How fast one core carries packets through the virtual network, on the calendar queue and, beside
/// it, on a plain binary heap.
///
/// Model:   Each host sends elided packets of one size, in intervals that vary by half around what
///          gives its link the wanted load, to a neighbour (star) or to hosts drawn at random
///          (leaf–spine, equal-cost choice of spine). The senders' own events are part of the cost.
/// Units:   A hop is one delivery over one link: two for a packet within a star, four between two
///          leaves. Seconds are CPU time of this thread, so that others on the machine count less.
/// Method:  Calendar and heap in turn, several times; figures are medians. Both must reach the same
///          digest over all deliveries.
/// Source:  What to reach: 10 million hops a second in the star, 4 million on 576 hosts.
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
  /// A Trio-ML packet of 1024 gradients and one of 64: 12 bytes of header each.
  std::vector<NetBenchLoad> loads{
      {"star-6", 4108}, {"star-6", 268}, {"leaf-spine-576", 4108}, {"leaf-spine-576", 268}};
  uint32_t repetitions = 5;
  uint64_t packets_each = 1'000'000;  ///< Sent by all hosts together in one repetition.
};

/// One line of the result.
struct NetBenchRow {
  std::string topology;
  uint32_t hosts = 0;
  uint32_t payload_bytes = 0;
  uint64_t hops = 0;  ///< Of one repetition.
  double hops_per_s = 0;
  double ns_per_hop = 0;
  double ns_per_hop_min = 0;
  double ns_per_hop_max = 0;
  double heap_ns_per_hop = 0;
  double ratio = 0;  ///< heap / calendar, median of the pairs.
  uint64_t digest = 0;
  bool digests_agree = false;
};

[[nodiscard]] std::vector<NetBenchRow> run_net_bench(const NetBenchConfig& config,
                                                     void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<NetBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<NetBenchRow>& rows);

}  // namespace tributary::bench
