// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many of SwitchML's packets one core carries through the pipeline model and, beside it,
/// through a plain loop that does the same to registers.
///
/// Model:   Eight workers send all slots of both sets in turn, so each packet but the last of a
///          slot is added and ends, and the last goes out to all. The loop is Algorithm 3 of the
///          SwitchML paper as a person would write it for a CPU: a bitmap, a count, one addition a
///          value, and a finished frame for each worker. It knows no stages, tables or passes.
/// Units:   Packets are those that workers send. Seconds are CPU time of this thread.
/// Method:  Model and loop in turn, several times; figures are medians, the ratio that of the
///          pairs. Both must send the same frames to the same ports.
/// Source:  What to reach: a million 256-element packets a second without values, 300 thousand
///          with them.
/// Tests:   tests/bench/tofino_bench_test.cc (small)
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tributary::bench {

/// One program and whether its packets have values.
struct TofinoBenchLoad {
  uint32_t elements = 256;  ///< Of a packet: 64 or 256.
  bool elided = false;
};

struct TofinoBenchConfig {
  std::vector<TofinoBenchLoad> loads{{64, false}, {64, true}, {256, false}, {256, true}};
  uint32_t repetitions = 5;
  uint64_t packets_each = 400'000;  ///< In one repetition; made up to whole slots.
};

/// One line of the result.
struct TofinoBenchRow {
  uint32_t elements = 0;
  bool elided = false;
  uint64_t packets = 0;  ///< Of one repetition.
  double passes_per_packet = 0;
  double packets_per_s = 0;
  double ns_per_packet = 0;
  double ns_per_packet_min = 0;
  double ns_per_packet_max = 0;
  double loop_ns_per_packet = 0;
  double ratio = 0;  ///< loop / model, median of the pairs.
  uint64_t checksum = 0;
  bool results_agree = false;
};

[[nodiscard]] std::vector<TofinoBenchRow> run_tofino_bench(const TofinoBenchConfig& config,
                                                           void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<TofinoBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<TofinoBenchRow>& rows);

}  // namespace tributary::bench
