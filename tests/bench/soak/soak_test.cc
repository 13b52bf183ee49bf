// SPDX-License-Identifier: Apache-2.0
// Method:  verdicts worked by hand, then a small soak with a real server. Asserts only results that
//          do not depend on the machine's speed: sums, packet accounts, records.
#include "bench/soak/soak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tributary::soak {
namespace {

using ::testing::HasSubstr;

SoakResult good() {
  SoakResult result;
  result.seconds = 10;
  result.reductions = 100;
  result.sessions = 8;
  result.packets_sent = 1000;
  result.packets_taken = 990;
  result.drops = 10;
  for (uint32_t i = 0; i < 3; i++) {
    result.cycles.push_back({.capacity_gb_per_s = 1.0,
                             .overload_gb_per_s = 0.95,
                             .resident_bytes = 100'000'000,
                             .buffers_free = 64});
  }
  return result;
}

bool holds(const SoakResult& result, const std::string& what) {
  for (const bench::Verdict& verdict : verdicts(result)) {
    if (verdict.what == what) return verdict.holds;
  }
  ADD_FAILURE() << "no verdict on " << what;
  return false;
}

TEST(SoakVerdicts, AllVerdictsHoldForAGoodRun) {
  for (const bench::Verdict& verdict : verdicts(good())) EXPECT_TRUE(verdict.holds) << verdict.what;
}

TEST(SoakVerdicts, EachFaultFailsItsVerdict) {
  SoakResult result = good();
  result.cycles[1].overload_gb_per_s = result.cycles[2].overload_gb_per_s = 0.89;
  EXPECT_FALSE(holds(result, "goodput under overload"));
  result = good();
  result.cycles[1].overload_gb_per_s = 0.1;
  EXPECT_TRUE(holds(result, "goodput under overload")) << "the median counts";
  result = good();
  result.wrong = 1;
  EXPECT_FALSE(holds(result, "sums"));
  result = good();
  result.failed = 1;
  EXPECT_FALSE(holds(result, "workers"));
  result = good();
  result.cycles[1].resident_bytes = 102'000'000;
  EXPECT_NEAR(result.memory_change(), 0.02, 1e-9);
  EXPECT_FALSE(holds(result, "memory")) << "also when it comes back";
  result = good();
  result.cycles[0].resident_bytes = 0;
  EXPECT_FALSE(holds(result, "memory")) << "unknown is not flat";
  result = good();
  result.cycles.back().buffers_free = 60;
  result.cycles.back().blocks_open = 2;
  EXPECT_EQ(result.leaked(), 6U);
  EXPECT_FALSE(holds(result, "records"));
  result = good();
  result.trains = false;
  result.packets_sent--;  // Ten drops are ten packets.
  EXPECT_EQ(result.packets_uncounted(), -1);
  EXPECT_FALSE(holds(result, "losses"));
  result.packets_sent += 2;
  EXPECT_EQ(result.packets_uncounted(), 1);
  EXPECT_FALSE(holds(result, "losses"));
  result.trains = true;
  EXPECT_TRUE(holds(result, "losses"));
  result.packets_sent = result.packets_taken + 640;  // Trains of 64.
  EXPECT_TRUE(holds(result, "losses"));
  result.packets_sent++;
  EXPECT_EQ(result.packets_uncounted(), 1);
  EXPECT_FALSE(holds(result, "losses"));
  EXPECT_FALSE(holds(SoakResult{}, "enough seen"));
}

TEST(SoakConfig, RefusalOfAValueNamesItsFlag) {
  EXPECT_TRUE(check({}));
  const auto refused = [](auto change) {
    SoakConfig config;
    change(config);
    const auto checked = check(config);
    return checked ? std::string() : checked.error().text;
  };
  EXPECT_THAT(refused([](SoakConfig& c) { c.jobs = 65; }), HasSubstr("--jobs 65"));
  EXPECT_THAT(refused([](SoakConfig& c) { c.workers = 1; }), HasSubstr("--workers 1"));
  EXPECT_THAT(refused([](SoakConfig& c) { c.bytes = 6; }), HasSubstr("--bytes 6"));
  EXPECT_THAT(refused([](SoakConfig& c) { c.phase_ms = 1; }), HasSubstr("--phase-ms 1"));
}

void a_small_one_keeps_its_accounts(bool trains) {
  const SoakConfig config{.seconds = 1,
                          .jobs = 1,
                          .workers = 3,
                          .bytes = 200'000,
                          .phase_ms = 300,
                          .trains = trains,
                          .tributary = TRIBUTARY_PROGRAM};
  const auto result = run_soak(
      config, {.progress = [](const std::string&) {}, .interrupted = [] { return false; }});
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_GE(result->cycles.size(), 2U);
  EXPECT_GT(result->reductions, 0U);
  EXPECT_EQ(result->wrong, 0U);
  EXPECT_EQ(result->failed, 0U) << result->first_failure;
  EXPECT_EQ(result->leaked(), 0U);
  EXPECT_EQ(result->packets_uncounted(), 0)
      << result->packets_sent << " sent, " << result->packets_taken << " taken, " << result->drops
      << " dropped";
  EXPECT_EQ(as_json(*result)["cycles"].size(), result->cycles.size());
  EXPECT_THAT(as_table(*result), HasSubstr("losses"));
}

TEST(Soak, SmallSoakHasConsistentCounters) { a_small_one_keeps_its_accounts(false); }
TEST(Soak, SmallSoakWithTrainsHasConsistentCounters) { a_small_one_keeps_its_accounts(true); }

TEST(Soak, InterruptEndsTheSoakAtOnce) {
  SoakConfig config;
  config.tributary = TRIBUTARY_PROGRAM;
  const auto result =
      run_soak(config, {.progress = [](const std::string&) {}, .interrupted = [] { return true; }});
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_TRUE(result->interrupted);
  EXPECT_TRUE(result->cycles.empty());
}

}  // namespace
}  // namespace tributary::soak
