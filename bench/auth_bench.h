// SPDX-License-Identifier: Apache-2.0
/// @file
/// The cost of authentication at the aggregator, for each mode and packet size.
///
/// Model:   ns_per_packet: auth::AggregatorEnd::open(), so MAC, comparison and replay window.
///          library_ns: the library's MAC of the same bytes, in one piece. ratio_to_sum:
///          ns_per_packet over memory::add_be32() of the packet's gradients. goodput_ratio:
///          members' packets a second of one core with an equal number of forged packets over that
///          without (member_traffic.h).
/// Method:  Each time is the least of many passes over packets in cache; the goodput's ratio is the
///          median over pairs, in CPU time of the thread.
/// Source:  Goals: header at most 25 ns, full at most 1.1 times the library, goodput at least 0.9.
/// Tests:   tests/bench/auth_bench_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "auth/mode.h"

namespace tributary::bench {

struct AuthBenchConfig {
  std::vector<uint32_t> packet_bytes{64, 1472, 4128, 9000};  ///< UDP payloads, with seals.
  uint32_t repetitions = 21;
  uint64_t bytes_each = 100'000'000;  ///< Bytes of one repetition's packets; see .cc for a limit.
};

/// One line of the result.
struct AuthBenchRow {
  auth::Mode mode = auth::Mode::kNone;
  uint32_t packet_bytes = 0;
  double ns_per_packet = 0;  ///< 0 in mode none.
  double library_ns = 0;     ///< 0 in mode none.
  double ratio_to_sum = 0;
  double goodput_ratio = 0;
  double members_mpps = 0;    ///< Without forged packets, in millions a second.
  bool all_in_place = false;  ///< All members' packets were added, all forged ones refused.
};

/// Runs all combinations; leaves out mode full where the library is missing. Calls `progress`
/// before each with a line for people.
[[nodiscard]] std::vector<AuthBenchRow> run_auth_bench(const AuthBenchConfig& config,
                                                       void (*progress)(const std::string&));

[[nodiscard]] std::string as_table(const std::vector<AuthBenchRow>& rows);
[[nodiscard]] nlohmann::json as_json(const std::vector<AuthBenchRow>& rows);

}  // namespace tributary::bench
