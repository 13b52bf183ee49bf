// SPDX-License-Identifier: Apache-2.0
// Method: a run of a few milliseconds; its figures are those of a core that worked and was asked.
#include "cli/bench/bench_observe.h"

#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

TEST(ObserveBench, CoreWorksBothWaysAndEveryQuestionIsAnswered) {
  const auto rows =
      run_observe_bench({.gradients = {64}, .window = 64, .rounds = 1, .round = milliseconds(50)},
                        [](const std::string&) {});
  ASSERT_TRUE(rows.has_value()) << rows.error().text;
  ASSERT_EQ(rows->size(), 1U);
  const ObserveBenchRow& row = rows->front();
  EXPECT_TRUE(row.is_correct);
  EXPECT_GT(row.ratio, 0);
  EXPECT_GT(row.alone_mpps, 0);
  EXPECT_GE(row.answers, 4U);
  EXPECT_GT(row.events, 0U);
  EXPECT_GE(row.api_answers, 4U);
  EXPECT_GT(row.api_median_ms, 0);
  EXPECT_GE(row.api_longest_ms, row.api_median_ms);
  EXPECT_EQ(as_json(*rows)["rows"][0]["gradients"], 64);
}

}  // namespace
}  // namespace tributary::cli
