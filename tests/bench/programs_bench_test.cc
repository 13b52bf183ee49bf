// SPDX-License-Identifier: Apache-2.0
// Method:  runs the smallest benchmark. Asserts that program and loop did the same work, but no
//          figures.
#include "bench/programs_bench.h"

#include <gtest/gtest.h>

namespace tributary::bench {
namespace {

TEST(ProgramsBench, ProgramAndLoopDoTheSameWork) {
  const auto rows = run_programs_bench({.repetitions = 2, .packets_each = 1'000, .flows = {100}},
                                       [](const std::string&) {});
  ASSERT_EQ(rows.size(), 3U);
  for (const ProgramsBenchRow& row : rows) {
    EXPECT_TRUE(row.is_correct) << row.program;
    EXPECT_EQ(row.flows, 100U);
    EXPECT_GT(row.mpps, 0) << row.program;
    EXPECT_GT(row.loop_mpps, 0) << row.program;
    EXPECT_LE(row.ratio_min, row.ratio) << row.program;
    EXPECT_LE(row.ratio, row.ratio_max) << row.program;
  }
  EXPECT_EQ(as_json(rows).at("rows").size(), 3U);
  EXPECT_NE(as_table(rows).find("telemetry"), std::string::npos);
}

}  // namespace
}  // namespace tributary::bench
