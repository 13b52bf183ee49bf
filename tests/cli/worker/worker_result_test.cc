// SPDX-License-Identifier: Apache-2.0
// Method:  a result with figures worked by hand, in every output form.
#include "cli/worker/worker_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

WorkerResult three_iterations() {
  WorkerResult result;
  result.options.session.rank = 2;
  result.options.session.world = 4;
  result.options.elements = 1'000'000;
  result.options.iterations = 3;
  result.iterations = 3;
  result.checked = 3'000'000;
  result.busy = milliseconds(6);
  result.latencies = {milliseconds(3), milliseconds(1), milliseconds(2)};
  result.threads = 2;
  result.options.session.threads = 3;
  result.counters.blocks = 100;
  result.counters.degraded_blocks = 7;
  return result;
}

TEST(WorkerResult, PercentilesAreNearestRank) {
  EXPECT_EQ(summarize({}).max, Duration());
  const LatencySummary one = summarize({milliseconds(5)});
  EXPECT_EQ(one.min, milliseconds(5));
  EXPECT_EQ(one.p99, milliseconds(5));

  std::vector<Duration> hundred;
  for (int64_t i = 100; i > 0; i--) hundred.push_back(milliseconds(i));
  const LatencySummary summary = summarize(hundred);
  EXPECT_EQ(summary.min, milliseconds(1));
  EXPECT_EQ(summary.p50, milliseconds(50));
  EXPECT_EQ(summary.p99, milliseconds(99));
  EXPECT_EQ(summary.max, milliseconds(100));
}

TEST(WorkerResult, GoodputIsTensorBytesOverBusyTime) {
  // 3 * 4 MB in 6 ms are 2 GB/s.
  EXPECT_DOUBLE_EQ(goodput_gbytes_per_second(three_iterations()), 2.0);
  EXPECT_EQ(goodput_gbytes_per_second(WorkerResult{}), 0.0);
}

TEST(WorkerResult, OnlyACompleteAndExactRunSucceeds) {
  WorkerResult result = three_iterations();
  EXPECT_EQ(exit_code(result), 0);
  result.wrong = 1;
  EXPECT_EQ(exit_code(result), 1);
  result.wrong = 0;
  result.status = "peer missing";
  EXPECT_EQ(exit_code(result), 1);
  result.interrupted = true;
  EXPECT_EQ(exit_code(result), kExitInterrupted);
}

TEST(WorkerResult, JsonAndTableAgree) {
  WorkerResult result = three_iterations();
  result.options.json_path = ::testing::TempDir() + "worker_result_test.json";
  ASSERT_EQ(write_json(result), "");
  std::ifstream file(result.options.json_path);
  const nlohmann::json json = nlohmann::json::parse(file);
  EXPECT_EQ(json, nlohmann::json(to_json(result)));
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["wrong"], 0);
  EXPECT_EQ(json["checksum"], "cbf29ce484222325");
  EXPECT_EQ(json["degraded"], 7);
  EXPECT_EQ(json["threads"], 2);
  EXPECT_DOUBLE_EQ(json["goodput_GBps"], 2.0);
  EXPECT_DOUBLE_EQ(json["latency_ms"]["p50"], 2.0);
  std::filesystem::remove(result.options.json_path);

  const std::string table = to_table(result);
  EXPECT_THAT(table, HasSubstr("rank 2 of 4: ok\n"));
  EXPECT_THAT(table, HasSubstr("2.000 GB/s in 0.006 s"));
  EXPECT_THAT(table, HasSubstr("7 of 100 blocks"));
  EXPECT_THAT(table, HasSubstr("2, --threads 3\n"));
  EXPECT_EQ(json["underflowed"], 0);
  EXPECT_EQ(json["warning"], "");
  EXPECT_THAT(table, Not(HasSubstr("underflowed")));
  EXPECT_EQ(json["config"]["deadline-s"], 60.0);
  EXPECT_THAT(table, HasSubstr("yes, 0 of 3000000 elements wrong"));

  result.counters.underflowed = 9;
  result.warning = "9 elements are too small";
  EXPECT_EQ(to_json(result)["underflowed"], 9);
  const std::string warned = to_table(result);
  EXPECT_THAT(warned, HasSubstr("  underflowed   9 elements\n"));
  EXPECT_THAT(warned, HasSubstr("  warning       9 elements are too small\n"));
}

TEST(WorkerResult, ErrorNamesAnUnwritableJsonFile) {
  WorkerResult result;
  EXPECT_EQ(write_json(result), "");  // No file is wanted.
  result.options.json_path = "/nonexistent/x.json";
  EXPECT_EQ(
      write_json(result),
      "--json /nonexistent/x.json: cannot be written: no file can be created in its folder: No "
      "such file or directory");
}

}  // namespace
}  // namespace tributary::cli
