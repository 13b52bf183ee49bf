// SPDX-License-Identifier: Apache-2.0
// Method:  verdicts worked by hand, then a short chaos with real processes. Asserts nothing that
//          depends on the machine's speed.
#include "bench/chaos/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::chaos {
namespace {

using ::testing::HasSubstr;

ChaosResult good() {
  ChaosResult result;
  result.network = "lo";
  result.reductions = 100;
  result.lives.push_back(
      {.resident_begin = 10'000'000, .resident_end = 10'500'000, .files_begin = 9, .files_end = 9});
  result.faults[0] = {.count = 2, .notice_ms = {3500, 3700}, .recovery_ms = {100, 300, 200}};
  return result;
}

bool holds(const ChaosResult& result, const std::string& what) {
  for (const bench::Verdict& verdict : verdicts(result)) {
    if (verdict.what == what) return verdict.holds;
  }
  ADD_FAILURE() << "no verdict on " << what;
  return false;
}

TEST(ChaosVerdicts, EachDefectFailsItsVerdict) {
  EXPECT_TRUE(bench::all_hold(verdicts(good())));
  ChaosResult result = good();
  result.wrong = 1;
  EXPECT_FALSE(holds(result, "sums"));
  result = good();
  result.reductions = 0;
  EXPECT_FALSE(holds(result, "sums")) << "nothing was summed";
  result = good();
  result.waits_beyond_deadline = 1;
  EXPECT_FALSE(holds(result, "waits"));
  result = good();
  result.unexpected_ends = 1;
  EXPECT_FALSE(holds(result, "ends"));
  result = good();
  result.lives[0].files_end = 10;
  EXPECT_FALSE(holds(result, "leaks"));
  result = good();
  result.lives[0].resident_end += kGrowthBytesMax;
  EXPECT_FALSE(holds(result, "leaks"));
  EXPECT_EQ(result.leaked(), 1U);
  result = good();
  result.sessions_left = 1;
  EXPECT_FALSE(holds(result, "leaks"));
}

TEST(ChaosReport, HasMedianAndMaximumOfEachKind) {
  const auto json = as_json(good());
  ASSERT_EQ(json["faults"].size(), 1U);
  const auto& fault = json["faults"][0];
  EXPECT_EQ(fault["kind"], "kill_worker");
  EXPECT_EQ(fault["notice_ms"]["median"], 3600);
  EXPECT_EQ(fault["notice_ms"]["max"], 3700);
  EXPECT_EQ(fault["recovery_ms"]["median"], 200);
  EXPECT_EQ(json["seed"], 1);
  EXPECT_EQ(json["leaked"], 0);
  EXPECT_THAT(as_table(good()), HasSubstr("kill_worker"));
}

TEST(ChaosConfig, RefusalOfAValueNamesItsFlag) {
  EXPECT_TRUE(check({}));
  const auto refused = [](auto change) {
    ChaosConfig config;
    change(config);
    const auto checked = check(config);
    return checked ? std::string() : checked.error().text;
  };
  EXPECT_THAT(refused([](ChaosConfig& c) { c.workers = 17; }), HasSubstr("--workers 17"));
  EXPECT_THAT(refused([](ChaosConfig& c) { c.elements = 0; }), HasSubstr("--elements 0"));
  EXPECT_THAT(refused([](ChaosConfig& c) { c.deadline_s = 4; }), HasSubstr("--deadline-s 4"));
  EXPECT_THAT(refused([](ChaosConfig& c) { c.network = "wifi"; }), HasSubstr("--network wifi"));
  EXPECT_THAT(refused([](ChaosConfig& c) { c.kinds.clear(); }), HasSubstr("--faults"));
}

/// Runs one fault of each kind, or as many as fit into a few seconds on a slow machine.
TEST(Chaos, ShortOneHasNoWrongSumNoStuckWorkerAndNoLeak) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  ChaosConfig config;
  config.seconds = 8;
  config.seed = seed;
  config.network = "lo";
  config.tributary = TRIBUTARY_PROGRAM;
  const auto result = run_chaos(
      config, {.progress = [](const std::string&) {}, .interrupted = [] { return false; }});
  ASSERT_TRUE(result) << result.error().text;
  for (const std::string& reason : result->skipped) GTEST_LOG_(INFO) << "skipped: " << reason;
  EXPECT_GT(result->reductions, 0U);
  EXPECT_EQ(result->wrong, 0U);
  EXPECT_EQ(result->waits_beyond_deadline, 0U) << result->first_failure;
  EXPECT_EQ(result->unexpected_ends, 0U) << result->first_failure;
  EXPECT_EQ(result->sessions_left, 0U);
  EXPECT_EQ(result->blocks_left, 0U);
  // Do not check the memory: a sanitizer keeps freed memory.
  EXPECT_FALSE(result->lives.empty());
  for (const ServerLife& life : result->lives) EXPECT_LE(life.files_end, life.files_begin);
  EXPECT_GT(result->forged, 0U);
  EXPECT_GT(result->flooded, 0U);
}

TEST(Chaos, AProgramThatIsNoServerIsReported) {
  ChaosConfig config;
  config.network = "lo";
  config.tributary = "/bin/false";
  const auto result = run_chaos(
      config, {.progress = [](const std::string&) {}, .interrupted = [] { return false; }});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text, HasSubstr("did not start"));
}

}  // namespace
}  // namespace tributary::chaos
