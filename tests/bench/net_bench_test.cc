// SPDX-License-Identifier: Apache-2.0
// Method:  runs the smallest benchmark. Asserts that both queues do the same work, but no figures.
#include "bench/net_bench.h"

#include <gtest/gtest.h>

namespace tributary::bench {
namespace {

constexpr auto kSilent = [](const std::string&) {};

TEST(NetBench, BothQueuesCarryTheSamePackets) {
  const NetBenchConfig small{
      .loads = {{"star-6", 268}, {"leaf-spine-576", 268}}, .repetitions = 2, .packets_each = 6'000};
  const auto rows = run_net_bench(small, kSilent);
  ASSERT_EQ(rows.size(), 2u);
  for (const NetBenchRow& row : rows) {
    EXPECT_TRUE(row.digests_agree) << row.topology;
    EXPECT_NE(row.digest, 0u);
    EXPECT_GT(row.hops_per_s, 0);
    EXPECT_LE(row.ns_per_hop_min, row.ns_per_hop);
    EXPECT_LE(row.ns_per_hop, row.ns_per_hop_max);
  }
  EXPECT_EQ(rows[0].hops, 6'000u * 2);  // To the switch and to the next host.
  EXPECT_GT(rows[1].hops, 5'760u * 3);  // Most packets leave their leaf: four hops.
  EXPECT_LE(rows[1].hops, 5'760u * 4);
}

TEST(NetBench, ReportsEveryFigureByName) {
  const std::vector<NetBenchRow> rows{{.topology = "star-6",
                                       .hosts = 6,
                                       .payload_bytes = 268,
                                       .hops = 1'000,
                                       .hops_per_s = 2e7,
                                       .ns_per_hop = 50,
                                       .ns_per_hop_min = 40,
                                       .ns_per_hop_max = 60,
                                       .heap_ns_per_hop = 70,
                                       .ratio = 1.4,
                                       .digest = 1,
                                       .digests_agree = true}};
  const auto json = as_json(rows);
  ASSERT_EQ(json["rows"].size(), 1u);
  for (const char* key : {"topology", "hops_per_s", "ns_per_hop", "heap_ns_per_hop", "digest"}) {
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  }
  EXPECT_NE(as_table(rows).find("agree"), std::string::npos);
}

}  // namespace
}  // namespace tributary::bench
