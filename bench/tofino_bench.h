// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rate at which one core carries SwitchML's packets through the pipeline model, against a
/// plain loop that does the same work on arrays.
///
/// Model:   Eight workers send all slots of both sets in turn. The switch adds and drops each
///          packet of a slot except the last, which goes to all workers. The loop is the SwitchML
///          paper's Algorithm 3 on a CPU: a bitmap, a count, an addition per value, and frames.
/// Units:   Packets that workers send; CPU seconds of this thread.
/// Method:  Model and loop in turn; medians, and the median ratio of the pairs. Both must send the
///          same frames to the same ports.
/// Source:  Goals: a million 256-element packets per second without values, 300 thousand with them.
/// Tests:   tests/bench/tofino_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

/// A program, and whether its packets carry values.
struct TofinoBenchLoad {
  uint32_t elements = 256;  ///< In a packet: 64 or 256.
  bool elided = false;
};

struct TofinoBenchConfig {
  std::vector<TofinoBenchLoad> loads{{64, false}, {64, true}, {256, false}, {256, true}};
  uint32_t repetitions = 5;
  uint64_t packets_each = 400'000;  ///< In one repetition; rounded up to whole slots.
};

/// One line of the result.
struct TofinoBenchRow {
  uint32_t elements = 0;
  bool elided = false;
  uint64_t packets = 0;  ///< In one repetition.
  double passes_per_packet = 0;
  double packets_per_s = 0;
  double ns_per_packet = 0;
  double ns_per_packet_min = 0;
  double ns_per_packet_max = 0;
  double loop_ns_per_packet = 0;
  double ratio = 0;  ///< loop / model, median over the pairs.
  uint64_t checksum = 0;
  bool results_agree = false;
};

[[nodiscard]] std::vector<TofinoBenchRow> run_tofino_bench(const TofinoBenchConfig& config,
                                                           void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<TofinoBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<TofinoBenchRow>& rows);

}  // namespace tributary::bench
