// SPDX-License-Identifier: Apache-2.0
// Method:  runs the smallest benchmark. Asserts that model and loop send the same, but no figures.
#include "bench/tofino_bench.h"

#include <gtest/gtest.h>

namespace tributary::bench {
namespace {

constexpr auto kSilent = [](const std::string&) {};

TEST(TofinoBench, ModelAndLoopSendTheSamePackets) {
  const TofinoBenchConfig small{.repetitions = 2, .packets_each = 3'000};
  const auto rows = run_tofino_bench(small, kSilent);
  ASSERT_EQ(rows.size(), 4u);
  for (const TofinoBenchRow& row : rows) {
    EXPECT_TRUE(row.results_agree) << row.elements << (row.elided ? " elided" : "");
    EXPECT_NE(row.checksum, 0u);
    EXPECT_EQ(row.packets, 4'096u);  // Two rounds of 2 sets x 128 slots x 8 workers.
    // One packet in eight completes a slot: 2 passes instead of 1, or 11 instead of 4.
    EXPECT_DOUBLE_EQ(row.passes_per_packet, row.elements == 64 ? 9.0 / 8 : 39.0 / 8);
    EXPECT_LE(row.ns_per_packet_min, row.ns_per_packet);
    EXPECT_LE(row.ns_per_packet, row.ns_per_packet_max);
  }
}

TEST(TofinoBench, ReportsEveryFigureByName) {
  const std::vector<TofinoBenchRow> rows{
      {.elements = 256, .elided = true, .packets_per_s = 1e6, .results_agree = true}};
  const auto json = as_json(rows);
  ASSERT_EQ(json["rows"].size(), 1u);
  for (const char* key :
       {"elements", "values", "packets_per_s", "passes_per_packet", "loop_over_model"}) {
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  }
  EXPECT_EQ(json["rows"][0]["values"], "elided");
  EXPECT_NE(as_table(rows).find("agree"), std::string::npos);
}

}  // namespace
}  // namespace tributary::bench
