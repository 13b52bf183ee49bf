// SPDX-License-Identifier: Apache-2.0
// Method:  runs the smallest benchmark over real loopback sockets and, if DPDK is built in, over a
//          wire in shared memory. Asserts no times.
#include "bench/latency_bench.h"

#include <gtest/gtest.h>

#include "io/dpdk/open_dpdk_port.h"

namespace tributary::bench {
namespace {

TEST(LatencyBench, EveryBlockIsAnswered) {
  const auto result = run_latency_bench({.gradients = 16, .rounds = 2, .blocks_each = 10});
  ASSERT_TRUE(result.has_value()) << result.error().text;
  EXPECT_TRUE(result->is_correct());
  ASSERT_EQ(result->paths.size(), io::has_dpdk() ? 2U : 1U) << result->left_out;
  EXPECT_EQ(result->left_out.empty(), io::has_dpdk());
  for (const LatencyPath& path : result->paths) {
    EXPECT_GT(path.aggregation.p50_us, 0) << path.name;
    EXPECT_LE(path.aggregation.p50_us, path.aggregation.p99_us) << path.name;
    EXPECT_GT(path.echo.p50_us, 0) << path.name;
    EXPECT_LE(path.ratio_min, path.ratio) << path.name;
    EXPECT_LE(path.ratio, path.ratio_max) << path.name;
  }
}

TEST(LatencyBench, ReportsEveryFigureByName) {
  LatencyBenchResult result{.config = {.gradients = 64}, .paths = {}, .left_out = "no DPDK"};
  result.paths.push_back({.name = "udp",
                          .aggregation = {.p50_us = 12.5, .p99_us = 40, .lost = 3},
                          .echo = {.p50_us = 10, .p99_us = 30},
                          .ratio = 1.25,
                          .ratio_min = 1.2,
                          .ratio_max = 1.3,
                          .is_correct = true});
  EXPECT_TRUE(result.is_correct());
  const auto json = as_json(result);
  const auto& path = json.at("paths").at(0);
  EXPECT_EQ(path.at("path"), "udp");
  EXPECT_EQ(path.at("aggregation").at("p50_us"), 12.5);
  EXPECT_EQ(path.at("aggregation").at("lost"), 3);
  EXPECT_EQ(path.at("echo").at("p99_us"), 30);
  EXPECT_EQ(path.at("ratio"), 1.25);
  EXPECT_EQ(json.at("left_out"), "no DPDK");
  EXPECT_NE(as_table(result).find("1.25 times the echo"), std::string::npos);
  EXPECT_NE(as_table(result).find("left out: no DPDK"), std::string::npos);
  result.paths.emplace_back();
  EXPECT_FALSE(result.is_correct());
}

}  // namespace
}  // namespace tributary::bench
