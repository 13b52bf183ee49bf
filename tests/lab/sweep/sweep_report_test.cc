// SPDX-License-Identifier: Apache-2.0
// Method: outcomes written by hand, and the exact bytes that follow.
#include "lab/sweep/sweep_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Sweep sweep_of(const std::string& text) {
  const testing::ScratchDirectory scratch;
  auto sweep = load_sweep(scratch.file("w.toml", text), {});
  EXPECT_TRUE(sweep) << sweep.error().text;
  return sweep.value_or(Sweep());
}

PointOutcome outcome(Duration mean, Duration total, uint64_t degraded, uint64_t packets) {
  PointOutcome made;
  made.result.mean_iteration = mean;
  made.result.total = total;
  made.result.blocks = 2;
  made.result.degraded_blocks = degraded;
  made.result.packets = packets;
  return made;
}

/// Returns an outcome of points whose mean iterations these are, in ms; those below 0 failed.
RunnerOutcome ran_of(const std::vector<double>& means_ms) {
  RunnerOutcome ran;
  for (const double ms : means_ms) {
    if (ms < 0) {
      ran.points.emplace_back();
      ran.failures.emplace_back("worker 2 hangs");
      ran.failed++;
    } else {
      ran.points.emplace_back(outcome(from_ns(ms * 1e6), milliseconds(9), 0, 7));
      ran.failures.emplace_back();
      ran.finished++;
    }
  }
  return ran;
}

TEST(SweepReport, WritersProduceExactBytes) {
  const Sweep sweep = sweep_of("[sweep]\nwindow = [16, 32]\nbackend = [\"ideal\"]\n");
  RunnerOutcome ran;
  ran.points = {outcome(microseconds(2'500), milliseconds(5), 1, 7),
                outcome(milliseconds(1), milliseconds(2), 0, 8)};
  ran.failures.resize(2);
  ran.finished = 2;
  EXPECT_EQ(sweep_csv(sweep, ran),
            "window,backend,mean_iteration_ms,total_ms,degraded_fraction,skipped_fraction,"
            "missed_fraction,simulated_packets\n"
            "16,ideal,2.5,5,0.5,0,0,7\n"
            "32,ideal,1,2,0,0,0,8\n");
  EXPECT_EQ(sweep_table(sweep, ran),
            "  window  backend  mean_iteration_ms  total_ms  degraded_fraction  skipped_fraction  "
            "missed_fraction  simulated_packets\n"
            "      16    ideal                2.5         5                0.5                 0  "
            "              0                  7\n"
            "      32    ideal                  1         2                  0                 0  "
            "              0                  8\n");
  const std::string lines = sweep_json_lines(sweep, ran);
  EXPECT_THAT(lines, HasSubstr("{\"values\":{\"window\":16,\"backend\":\"ideal\",\"seed\":1},"
                               "\"outcome\":{\"mean_iteration_ns\":2500000.0,"));
  EXPECT_THAT(lines, HasSubstr("}}\n{\"values\":{\"window\":32,"));
  EXPECT_THAT(lines, HasSubstr("\"outcome\":" + outcome_json(*ran.points[1]).dump() + "}\n"));
}

// 1, 2 and 6 ms: mean 3, deviation sqrt((4 + 1 + 9) / 2) = 2.6458, over sqrt(3) = 1.5275.
TEST(SweepReport, RepetitionsBecomeMeansWithStandardErrors) {
  const Sweep sweep = sweep_of("[sweep]\nwindow = [16, 32]\nrepeat = 3\n");
  const RunnerOutcome ran = ran_of({1, 2, 6, 4, 4, 4});
  const std::string csv = sweep_csv(sweep, ran);
  EXPECT_THAT(csv, HasSubstr("window,seeds,mean_iteration_ms,mean_iteration_ms_error,total_ms,"));
  EXPECT_THAT(csv, HasSubstr("\n16,3,3,1.527525"));
  EXPECT_THAT(csv, HasSubstr("\n32,3,4,0,9,0,"));
  EXPECT_THAT(sweep_table(sweep, ran),
              HasSubstr("\n      16      3          3 ± 1.528         9 "));
  EXPECT_THAT(sweep_table(sweep, ran),
              HasSubstr("\n      32      3                  4         9 "));
  const auto plots = sweep_plots(sweep, ran);
  ASSERT_EQ(plots.size(), 1);  // Nothing is degraded, skipped or missed.
  ASSERT_EQ(plots[0].series.size(), 1);
  EXPECT_EQ(plots[0].series[0].name, name_of(Scenario().backend));
  EXPECT_EQ(plots[0].series[0].points[0].x, 16);
  EXPECT_EQ(plots[0].series[0].points[0].y, 3);
  EXPECT_NEAR(plots[0].series[0].points[0].error, std::sqrt(7.0 / 3), 1e-9);
  EXPECT_TRUE(plots[0].series[0].band);
}

TEST(SweepReport, SkippedPointsHaveALineEachAndAreCounted) {
  const Sweep sweep = sweep_of(
      "straggler.worker = 3\nstraggler.pattern = \"pause\"\n[sweep]\nworkers = [4, 2, 5]\n"
      "repeat = 2\n");
  const RunnerOutcome ran = ran_of({1, -1, -1, -1});
  const std::string table = sweep_table(sweep, ran);
  EXPECT_THAT(table, HasSubstr("\n        4      1                  1 "));
  EXPECT_THAT(table, HasSubstr("\nskipped: workers=4 seed=2: worker 2 hangs\n"));
  EXPECT_THAT(table, HasSubstr("\nskipped: workers=5 seed=1: worker 2 hangs\n"));
  EXPECT_THAT(table, HasSubstr("\nskipped: workers=2: "));
  EXPECT_TRUE(table.ends_with("\n5 of 6 points skipped\n")) << table;
  EXPECT_THAT(sweep_json_lines(sweep, ran),
              HasSubstr("{\"values\":{\"workers\":5,\"seed\":2},\"skipped\":\"worker 2 hangs\"}\n"
                        "{\"values\":{\"workers\":2},\"skipped\":\""));
}

TEST(SweepReport, PlotsAreOverTheFirstKeyWithNumbers) {
  const Sweep sweep = sweep_of(
      "[sweep]\nbackend = [\"ring\", \"ideal\"]\nlink.propagation_ns = [500, 100]\nwindow = [16, "
      "32]\n");
  EXPECT_EQ(sweep_axis(sweep), "link.propagation_ns");
  RunnerOutcome ran = ran_of({1, 2, 3, 4, 5, 6, 7, 8});
  ran.points[0]->result.degraded_blocks = 1;
  const auto plots = sweep_plots(sweep, ran);
  ASSERT_EQ(plots.size(), 2);
  EXPECT_EQ(plots[1].y_label, "results that lack a worker (%)");
  ASSERT_EQ(plots[0].series.size(), 4);
  EXPECT_EQ(plots[0].series[1].name, "ring, window=32");
  EXPECT_EQ(plots[0].series[1].points[0].x, 100);  // Sorted.
  EXPECT_EQ(plots[0].series[1].points[0].y, 4);
  EXPECT_EQ(plots[0].series[1].points[1].y, 2);
  EXPECT_EQ(plots[1].series[0].points[1].y, 50);
  EXPECT_FALSE(sweep_axis(sweep_of("[sweep]\nbackend = [\"ring\", \"ideal\"]\n")));
  EXPECT_THAT(sweep_plots(sweep_of("[sweep]\nbackend = [\"ring\"]\n"), ran_of({1})), IsEmpty());
}

}  // namespace
}  // namespace tributary::lab
