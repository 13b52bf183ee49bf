// SPDX-License-Identifier: Apache-2.0
#include "bench/race/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tributary::race {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RaceRow row(const std::string& system, double seconds, const RaceCase& race) {
  return {.system = system,
          .race = race,
          .median_s = seconds,
          .spread = 0.25,
          .worker_cpu_s_per_gb = seconds * 2,
          .total_cpu_s_per_gb = seconds * 3,
          .link_bytes = 12'345,
          .round_medians_s = {seconds * 0.9, seconds}};
}

RaceResult example() {
  const RaceCase race{.net = "netns-1gbit", .workers = 4, .bytes = 100'000'000};
  RaceResult result;
  result.machine = {.processor = "A Fast One", .cores = 2, .kernel = "6.1", .load = 0.5};
  result.handoff_before_ns = 25;
  result.handoff_after_ns = 160;
  result.rows = {row("tributary", 0.9, race), row("ps", 1.0, race), row("gloo-ring", 1.5, race),
                 row("ompi-tcp", 1.8, race)};
  result.left_out = {{"ompi-tcp-ring", race, "round 1: broke"}};
  return result;
}

TEST(RaceReport, JsonRowsHaveExactlyTheNamedFields) {
  const auto json = as_json(example());
  ASSERT_EQ(json["rows"].size(), 4U);
  std::set<std::string> keys;
  for (const auto& [key, value] : json["rows"][0].items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"system", "net", "workers", "servers", "bytes", "loss",
                                         "median_s", "optimum_s", "ratio_to_optimum", "spread",
                                         "worker_cpu_s_per_GB", "colocated_cpu_s_per_GB",
                                         "total_cpu_s_per_GB", "cores_busy", "link_bytes", "wire",
                                         "wrong", "laps_ranks_differ"}));
  EXPECT_EQ(json["rows"][0]["net"], "netns-1gbit");
  EXPECT_EQ(json["rows"][0]["link_bytes"], 12'345);
  EXPECT_DOUBLE_EQ(json["rows"][0]["cores_busy"], 0.6);  // 2.7 s for each of 0.4 GB, of 2 x 0.9 s.
  EXPECT_EQ(json["left_out"][0]["why"], "round 1: broke");
  EXPECT_EQ(json["machine"]["cores"], 2);
  EXPECT_FALSE(json["cannot_tell"].empty());
}

TEST(RaceReport, JsonHasAComparisonForEachCase) {
  RaceResult result = example();
  RaceCase alone = result.rows[0].race;
  alone.workers = 6;
  result.rows.push_back(row("tributary", 0.5, alone));
  const auto json = as_json(result);
  ASSERT_EQ(json["comparisons"].size(), 2U);
  const auto& with_peers = json["comparisons"][0];
  EXPECT_EQ(with_peers["net"], "netns-1gbit");
  EXPECT_EQ(with_peers["workers"], 4);
  EXPECT_EQ(with_peers["bytes"], 100'000'000);
  EXPECT_EQ(with_peers["loss"], 0);
  EXPECT_EQ(with_peers["fastest_peer"], "gloo-ring");
  EXPECT_DOUBLE_EQ(with_peers["ratio"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(with_peers["ratio_min"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(with_peers["ratio_max"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(with_peers["worker_cpu_ratio"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(with_peers["ratio_to_ps"].get<double>(), 0.9);
  EXPECT_TRUE(with_peers["ratio_to_link"].is_number());
  const auto& without = json["comparisons"][1];
  EXPECT_EQ(without["fastest_peer"], "");
  EXPECT_TRUE(without["ratio"].is_null());
  EXPECT_TRUE(without["ratio_to_ps"].is_null());
}

/// A race of 100 MB and four workers on equal links, where one tensor's bits take 0.8365 s.
RaceResult on_equal_links() {
  RaceResult result = example();
  for (RaceRow& one : result.rows) one.race.net = "netns-1gbit-equal";
  for (const uint32_t servers : {1U, 4U}) {
    result.rows.push_back(row("tributary", 0.9, result.rows[0].race));
    result.rows.back().race.servers = servers;
    result.rows.back().colocated_cpu_s_per_gb = 0.25;
  }
  return result;
}

TEST(RaceReport, RowsOnEqualLinksShowTheOptimum) {
  const auto rows = as_json(on_equal_links())["rows"];
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0]["servers"], 0);
  EXPECT_NEAR(rows[0]["optimum_s"].get<double>(), 1.5 * 0.8365, 0.001) << "the ring's";
  EXPECT_EQ(rows[1]["system"], "ps");
  EXPECT_EQ(rows[1]["servers"], 1);
  EXPECT_TRUE(rows[1]["optimum_s"].is_null());
  EXPECT_TRUE(rows[1]["colocated_cpu_s_per_GB"].is_null());
  EXPECT_EQ(rows[2]["servers"], 0);
  EXPECT_NEAR(rows[2]["optimum_s"].get<double>(), 1.5 * 0.8365, 0.001);
  EXPECT_EQ(rows[4]["servers"], 1);
  EXPECT_NEAR(rows[4]["optimum_s"].get<double>(), 24.0 / 18 * 0.8365, 0.001);
  EXPECT_DOUBLE_EQ(rows[4]["colocated_cpu_s_per_GB"].get<double>(), 0.25);
  EXPECT_EQ(rows[5]["servers"], 4);
  EXPECT_NEAR(rows[5]["optimum_s"].get<double>(), 0.8365, 0.001);
  EXPECT_NEAR(rows[5]["ratio_to_optimum"].get<double>(), 0.9 / 0.8365, 0.001);
}

TEST(RaceReport, EachNumberOfServersIsComparedWithTheSamePeer) {
  const RaceResult result = on_equal_links();
  const auto comparisons = compare(result);
  ASSERT_EQ(comparisons.size(), 3U);
  for (const Comparison& one : comparisons) {
    EXPECT_EQ(one.fastest_peer, "gloo-ring");
    EXPECT_DOUBLE_EQ(one.to_peer.median, 0.6);
  }
  EXPECT_NEAR(comparisons[0].to_optimum, 0.9 / (1.5 * 0.8365), 0.001);
  EXPECT_NEAR(comparisons[2].to_optimum, 0.9 / 0.8365, 0.001);
  const auto json = as_json(result)["comparisons"];
  EXPECT_EQ(json[1]["servers"], 1);
  EXPECT_NEAR(json[2]["ratio_to_optimum"].get<double>(), 0.9 / 0.8365, 0.001);
  EXPECT_THAT(as_table(result), HasSubstr("4 workers, 4 spare, 100 MB"));
  EXPECT_THAT(as_svg(result), HasSubstr("tributary, 4 spare"));
}

TEST(RaceReport, ServersOfOtherNetworksHaveNoOptimum) {
  const auto rows = as_json(example())["rows"];
  EXPECT_EQ(rows[0]["servers"], 1);
  EXPECT_EQ(rows[2]["servers"], 0);
  EXPECT_TRUE(rows[0]["optimum_s"].is_null());
  EXPECT_TRUE(rows[0]["ratio_to_optimum"].is_null());
}

TEST(RaceReport, RowsShowALateWorkerAndSharedMemory) {
  RaceResult result = example();
  result.rows[0].race.straggler = true;
  result.rows[1].race.net = "shm";
  const auto json = as_json(result);
  EXPECT_EQ(json["rows"][0]["net"], "netns-1gbit+straggler");
  EXPECT_TRUE(json["rows"][1]["link_bytes"].is_null());
}

TEST(RaceReport, ComparesWithTheFastestTcpPeerOfTheSameCase) {
  RaceResult result = example();
  RaceCase other = result.rows[0].race;
  other.workers = 6;
  result.rows.push_back(row("gloo-hd", 0.1, other));  // Another case: ignored.
  const auto comparisons = compare(result);
  ASSERT_EQ(comparisons.size(), 1U);
  EXPECT_EQ(comparisons[0].fastest_peer, "gloo-ring");
  EXPECT_DOUBLE_EQ(comparisons[0].to_peer.median, 0.6);
  EXPECT_DOUBLE_EQ(comparisons[0].cpu_to_peer, 0.6);
  EXPECT_DOUBLE_EQ(comparisons[0].to_server, 0.9);
  EXPECT_NEAR(comparisons[0].to_link, 0.9 / 0.8365, 0.001);
}

TEST(RaceReport, ComparesSharedMemoryWithTcpOnTheLoopback) {
  RaceResult result = example();
  for (RaceRow& one : result.rows) one.race.net = "lo";
  result.rows[0].race.net = "shm";
  const auto comparisons = compare(result);
  ASSERT_EQ(comparisons.size(), 1U);
  EXPECT_EQ(comparisons[0].fastest_peer, "gloo-ring");
}

TEST(RaceReport, ComparesNothingWithoutRivals) {
  RaceResult result = example();
  result.rows.resize(1);
  const auto comparisons = compare(result);
  ASSERT_EQ(comparisons.size(), 1U);
  EXPECT_EQ(comparisons[0].fastest_peer, "");
  EXPECT_EQ(comparisons[0].to_server, 0);
  EXPECT_THAT(as_table(result), HasSubstr("–"));
}

TEST(RaceReport, TableNamesMachineSkippedCasesAndLimits) {
  const std::string table = as_table(example());
  EXPECT_THAT(table, HasSubstr("A Fast One, 2 cores"));
  EXPECT_THAT(table, HasSubstr("25 ns before, 160 ns after"));
  EXPECT_THAT(table, HasSubstr("ompi-tcp-ring (netns-1gbit, 4 workers, 100 MB): round 1: broke"));
  EXPECT_THAT(table, HasSubstr("always share a cache"));
  EXPECT_THAT(table, Not(HasSubstr("The loopback is one link")));
}

TEST(RaceReport, TableStatesThatOnlyTributaryMeetsTheLoss) {
  RaceResult result = example();
  result.rows[0].race.net = "lo";
  result.rows[0].race.loss = 0.01;
  EXPECT_THAT(as_table(result), HasSubstr("TCP systems under loss cannot be compared"));
}

TEST(RaceReport, PlotsHaveOneLineForEachSystem) {
  const std::string svg = as_svg(example());
  EXPECT_THAT(svg, HasSubstr("All-reduce of 100 MB, netns-1gbit"));
  EXPECT_THAT(svg, HasSubstr("gloo-ring"));
}

}  // namespace
}  // namespace tributary::race
