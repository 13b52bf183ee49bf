// SPDX-License-Identifier: Apache-2.0
// Method:  configurations worked by hand, then tiny races with real processes. Asserts no times.
#include "bench/race/race.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "bench/race/client/tributary_client.h"
#include "tests/support/sanitized.h"

namespace tributary::race {
namespace {

using ::testing::HasSubstr;

const RaceHooks kQuiet{.progress = [](const std::string&) {}, .interrupted = [] { return false; }};

RaceConfig tiny() {
  RaceConfig config;
  config.nets = {"lo"};
  config.workers = {2};
  config.bytes = {200'000};
  config.rounds = 2;
  config.laps = 1;
  config.tributary = TRIBUTARY_PROGRAM;
  return config;
}

TEST(RaceConfig, RefusalOfAValueNamesItsFlag) {
  EXPECT_TRUE(check(tiny()));
  const auto refused = [](auto change) {
    RaceConfig config = tiny();
    change(config);
    const auto checked = check(config);
    return checked ? std::string() : checked.error().text;
  };
  EXPECT_THAT(refused([](RaceConfig& c) { c.systems = {"nccl"}; }), HasSubstr("--systems nccl"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.nets = {"atm"}; }), HasSubstr("netns-1gbit"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.workers = {1}; }), HasSubstr("--workers 1"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.workers = {17}; }), HasSubstr("2 to 16"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.bytes = {6}; }), HasSubstr("--bytes 6"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.losses = {0.9}; }), HasSubstr("--loss 0.9"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.bytes = {}; }), HasSubstr("each needs a value"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.servers = {9}; }), HasSubstr("--servers 9"));
  EXPECT_THAT(refused([](RaceConfig& c) { c.servers = {9}; }), HasSubstr("allowed: 0 to 8"));
  // Also with 0: the networks without shaped servers have one.
  const std::string elsewhere = refused([](RaceConfig& c) {
    c.nets = {"netns-1gbit-equal", "netns-1gbit"};
    c.servers = {0};
  });
  EXPECT_THAT(elsewhere, HasSubstr("--nets netns-1gbit,"));
  EXPECT_THAT(elsewhere, HasSubstr("allowed: netns-1gbit-equal, "));
  EXPECT_EQ(refused([](RaceConfig& c) {
              c.nets = {"netns-1gbit-equal", "netns-1gbit-half"};
              c.servers = {0, 8};
            }),
            "");
}

TEST(RaceConfig, CasesAreAllCombinationsGroupedByNet) {
  RaceConfig config = tiny();
  config.nets = {"lo", "netns"};
  config.workers = {2, 4};
  config.losses = {0, 0.01};
  config.straggler = true;
  const auto cases = cases_of(config);
  ASSERT_EQ(cases.size(), 12U);
  EXPECT_EQ(cases[1].loss, 0.01);
  EXPECT_TRUE(cases[2].straggler);
  EXPECT_EQ(cases[2].loss, 0);
  EXPECT_EQ(cases[6].net, "netns");
}

TEST(RaceConfig, TributaryTakesATurnForEachNumberOfServers) {
  RaceConfig config = tiny();
  config.systems = {"gloo-ring", "tributary", "tributary-group", "ps"};
  config.servers = {0, 2};
  const auto turns_on = [&config](const char* net) {
    std::string turns;
    for (const Entry& entry : entries_of(config, {.net = net})) {
      turns += std::string(entry.system->name) + " " + std::to_string(entry.race.servers) + "; ";
    }
    return turns;
  };
  EXPECT_EQ(turns_on("netns-1gbit-equal"),
            "tributary 0; tributary 2; tributary-group 0; ps 0; gloo-ring 0; ");
  EXPECT_EQ(turns_on("netns-1gbit"), "tributary 0; tributary-group 0; ps 0; gloo-ring 0; ");
  config.servers = {};
  EXPECT_EQ(turns_on("netns-1gbit-equal"), turns_on("netns-1gbit"));
}

TEST(PartialSums, WeighsTheContributingRanks) {
  host::DegradedRange range{.element_first = 10, .element_count = 4, .sources = {}};
  range.sources[0] = 0b1011;  // Ranks 0, 1 and 3: 1 + 2 + 4.
  const auto parts = partial_sums(std::array{range}, 4);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].element_first, 10U);
  EXPECT_EQ(parts[0].element_count, 4U);
  EXPECT_EQ(parts[0].weight, 7U);
}

TEST(Worker, RefusesAnUnknownAlgorithm) {
  ClientConfig config;
  config.algorithm = "gossip";
  const auto ran = run_worker(config);
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().text, HasSubstr("gossip"));
}

/// Expects a row or a reason for every system, and no wrong element.
void expect_complete(const RaceConfig& config, const RaceResult& result) {
  EXPECT_TRUE(all_sums_correct(result));
  EXPECT_EQ(result.rows.size() + result.left_out.size(), config.systems.size());
  for (const SkippedCase& skipped : result.left_out) {
    EXPECT_THAT(skipped.why, HasSubstr("not built")) << skipped.system;
  }
  for (const RaceRow& row : result.rows) {
    EXPECT_GT(row.median_s, 0) << row.system;
    EXPECT_EQ(row.round_medians_s.size(), config.rounds) << row.system;
    EXPECT_EQ(row.wrong, 0U) << row.system;
    EXPECT_GT(row.link_bytes, 0) << row.system;
  }
}

TEST(Race, EverySystemGetsExactSumsOnTheLoopback) {
  RaceConfig config = tiny();
  config.systems = {"tributary", "tributary-group", "ps",           "gloo-ring",
                    "gloo-hd",   "ompi-tcp",        "ompi-tcp-ring"};
  // Processes of the other systems start slowly under a sanitizer, and their code is not ours.
  if (testing::kIsSanitized) config.systems.resize(3);
  expect_complete(config, run_race(config, kQuiet));
}

// The systems' processes run for long under a sanitizer, and EverySystemGetsExactSums runs them
// there.
constexpr const char* kTooSlow = "too slow with a sanitizer";

TEST(Race, RacesInNamespacesOrExplainsTheSkip) {
  if (testing::kIsSanitized) GTEST_SKIP() << kTooSlow;
  RaceConfig config = tiny();
  config.nets = {"netns-pkt1500"};
  config.losses = {0.01};
  config.systems = {"tributary", "ps", "ompi-tcp"};
  const RaceResult result = run_race(config, kQuiet);
  if (const std::string why = namespaces_refusal(); !why.empty()) {
    ASSERT_EQ(result.left_out.size(), 1U);
    EXPECT_EQ(result.left_out[0].why, why);
    EXPECT_FALSE(all_sums_correct(result)) << "nothing was raced";
    return;
  }
  expect_complete(config, result);
}

TEST(Race, RacesOnEqualLinks) {
  if (testing::kIsSanitized) GTEST_SKIP() << kTooSlow;
  if (!namespaces_refusal().empty()) GTEST_SKIP() << namespaces_refusal();
  RaceConfig config = tiny();
  config.nets = {"netns-1gbit-equal"};
  config.systems = {"ps", "ompi-tcp"};
  config.servers = {0, 1};
  config.rounds = 1;
  const RaceResult result = run_race(config, kQuiet);
  expect_complete(config, result);
  for (const RaceRow& row : result.rows) EXPECT_EQ(row.race.servers, 0U);
}

TEST(Race, SimulatedLoopbackLossAppliesToTributaryOnly) {
  RaceConfig config = tiny();
  config.systems = {"tributary", "ps"};
  config.losses = {0.02};
  const RaceResult result = run_race(config, kQuiet);
  ASSERT_EQ(result.rows.size(), 1U);
  EXPECT_EQ(result.rows[0].system, "tributary");
  EXPECT_EQ(result.rows[0].wrong, 0U);
  EXPECT_EQ(result.left_out.size(), 1U);
}

TEST(Race, InterruptEndsTheRaceWithPartialResults) {
  RaceHooks hooks = kQuiet;
  hooks.interrupted = [] { return true; };
  const RaceResult result = run_race(tiny(), hooks);
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(result.rows.empty());
  EXPECT_FALSE(all_sums_correct(result));
}

TEST(Race, ErrorNamesAProgramThatCannotRun) {
  RaceConfig config = tiny();
  config.systems = {"ps"};
  config.tributary = "/bin/false";
  const RaceResult result = run_race(config, kQuiet);
  ASSERT_EQ(result.left_out.size(), 1U);
  EXPECT_THAT(result.left_out[0].why, HasSubstr("ended too early"));
}

}  // namespace
}  // namespace tributary::race
