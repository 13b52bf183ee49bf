// SPDX-License-Identifier: Apache-2.0
// Method: the benchmark at its smallest, over real loopback sockets. No time is asserted.
#include "bench/latency_bench.h"

#include <gtest/gtest.h>

namespace tributary::bench {
namespace {

TEST(LatencyBench, EveryBlockIsAnswered) {
  const auto result = run_latency_bench({.gradients = 16, .rounds = 2, .blocks_each = 10});
  ASSERT_TRUE(result.has_value()) << result.error().text;
  EXPECT_TRUE(result->right);
  EXPECT_GT(result->aggregation.p50_us, 0);
  EXPECT_LE(result->aggregation.p50_us, result->aggregation.p99_us);
  EXPECT_GT(result->echo.p50_us, 0);
  EXPECT_LE(result->ratio_min, result->ratio);
  EXPECT_LE(result->ratio, result->ratio_max);
}

TEST(LatencyBench, ReportsEveryFigureByName) {
  const LatencyBenchResult result{.config = {.gradients = 64},
                                  .aggregation = {.p50_us = 12.5, .p99_us = 40, .lost = 3},
                                  .echo = {.p50_us = 10, .p99_us = 30},
                                  .ratio = 1.25,
                                  .ratio_min = 1.2,
                                  .ratio_max = 1.3,
                                  .right = true};
  const auto json = as_json(result);
  EXPECT_EQ(json.at("aggregation").at("p50_us"), 12.5);
  EXPECT_EQ(json.at("aggregation").at("lost"), 3);
  EXPECT_EQ(json.at("echo").at("p99_us"), 30);
  EXPECT_EQ(json.at("ratio"), 1.25);
  EXPECT_NE(as_table(result).find("1.25 times the echo"), std::string::npos);
}

}  // namespace
}  // namespace tributary::bench
