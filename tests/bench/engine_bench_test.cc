// SPDX-License-Identifier: Apache-2.0
// Method:  runs the smallest benchmark. Asserts that both sides do the same work, but no figures.
#include "bench/engine_bench.h"

#include <gtest/gtest.h>

namespace tributary::bench {
namespace {

constexpr auto kSilent = [](const std::string&) {};

TEST(EngineBench, EngineAndLoopComputeTheSameResults) {
  const EngineBenchConfig small{.gradients = {2, 64},
                                .windows = {16, 128},
                                .sources = 3,
                                .repetitions = 2,
                                .gradients_each = 100'000};
  const auto rows = run_engine_bench(small, kSilent);
  ASSERT_EQ(rows.size(), 4U);
  for (const EngineBenchRow& row : rows) {
    EXPECT_TRUE(row.results_agree) << row.gradients << " gradients, window " << row.window;
    EXPECT_GT(row.engine_mpps, 0);
    EXPECT_GT(row.loop_mpps, 0);
    EXPECT_LE(row.ratio_min, row.ratio);
    EXPECT_LE(row.ratio, row.ratio_max);
  }
}

TEST(EngineBench, ReportsEveryFigureByName) {
  const std::vector<EngineBenchRow> rows{{.gradients = 64,
                                          .window = 16,
                                          .engine_mpps = 2,
                                          .loop_mpps = 4,
                                          .ratio = 0.5,
                                          .ratio_min = 0.4,
                                          .ratio_max = 0.6,
                                          .io_mpps = 100,
                                          .results_agree = true}};
  const auto json = as_json(rows);
  ASSERT_EQ(json["rows"].size(), 1U);
  for (const char* key : {"gradients", "window", "engine_mpps", "loop_mpps", "ratio"}) {
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
  }
  EXPECT_NE(as_table(rows).find("agree"), std::string::npos);
}

}  // namespace
}  // namespace tributary::bench
