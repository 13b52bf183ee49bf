// SPDX-License-Identifier: Apache-2.0
// Method: a result by hand, as table, JSON and plot.
#include "lab/sweep/shared_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

SharedResult two_jobs() {
  SharedResult result;
  result.digest = 0xabc;
  result.total = milliseconds(9);
  for (const char* name : {"a", "b"}) {
    JobResult job;
    job.name = name;
    job.backend = Backend::kRing;
    job.hosts = {1, 3};
    job.began_at = milliseconds(1);
    job.run.mean_iteration = milliseconds(3);
    job.run.iterations = {milliseconds(2), milliseconds(4)};
    job.run.blocks = 8;
    job.run.degraded_blocks = 2;
    job.run.workers.resize(2);
    job.run.workers[0].retransmissions = 5;
    job.run.workers[1].retransmissions = 2;
    result.jobs.push_back(job);
  }
  result.jobs[0].alone = milliseconds(2);
  return result;
}

TEST(SharedOutput, TableHasALineForEachJob) {
  const std::string text = shared_text(two_jobs());
  EXPECT_THAT(text, ::testing::ContainsRegex("a +ring +2 +1 +3 +2 +1.5 +25 +0 +0 +7\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("b +ring +2 +1 +3 +– +– +25 +0 +0 +7\n"));
  EXPECT_THAT(text, HasSubstr("0000000000000abc"));
}

TEST(SharedOutput, JsonHasTheJobsByName) {
  const Json json = shared_json(two_jobs());
  ASSERT_EQ(json.at("jobs").size(), 2U);
  const Json& job = json.at("jobs")[0];
  EXPECT_EQ(job.at("name"), "a");
  EXPECT_EQ(job.at("backend"), "ring");
  EXPECT_EQ(job.at("hosts"), Json({1, 3}));
  EXPECT_EQ(job.at("slowdown"), 1.5);
  EXPECT_EQ(job.at("retransmissions"), 7);
  EXPECT_EQ(job.at("degraded_fraction"), 0.25);
  EXPECT_EQ(job.at("iterations_ns").size(), 2U);
  EXPECT_FALSE(job.contains("digest"));
  EXPECT_TRUE(json.at("jobs")[1].at("slowdown").is_null());
  EXPECT_EQ(json.at("digest"), "0000000000000abc");
}

TEST(SharedOutput, PlotHasALineForEachJobAndItsTimeAlone) {
  const LinePlot plot = iterations_plot(two_jobs().jobs);
  ASSERT_EQ(plot.series.size(), 3U);
  EXPECT_EQ(plot.series[0].name, "a alone");
  EXPECT_EQ(plot.series[1].name, "a: ring");
  ASSERT_EQ(plot.series[1].points.size(), 2U);
  EXPECT_EQ(plot.series[1].points[1].x, 7);  // 1 + 2 + 4 ms.
  EXPECT_EQ(plot.series[1].points[1].y, 4);
}

}  // namespace
}  // namespace tributary::lab
