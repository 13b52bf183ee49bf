// SPDX-License-Identifier: Apache-2.0
#include "bench/race/result.h"

#include <gtest/gtest.h>

#include <array>

namespace tributary::race {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr ServerCpu kCpu{.colocated_s = 0.004, .other_s = 0.002};

TEST(Lap, SpansFirstStartToLastEndPerAllReduce) {
  const std::array<LapReport, 2> reports{LapReport{.start_ns = 10 * kMs,
                                                   .end_ns = 30 * kMs,
                                                   .cpu_ns = 4 * kMs,
                                                   .rx_bytes = 100,
                                                   .tx_bytes = 300,
                                                   .wrong = 1},
                                         LapReport{.start_ns = 12 * kMs,
                                                   .end_ns = 34 * kMs,
                                                   .cpu_ns = 8 * kMs,
                                                   .rx_bytes = 200,
                                                   .tx_bytes = 200,
                                                   .wrong = 2,
                                                   .partial = 5}};
  const Lap lap = lap_of(reports, kCpu, 2, false);
  EXPECT_DOUBLE_EQ(lap.seconds, 0.012);          // 24 ms over two all-reduces.
  EXPECT_DOUBLE_EQ(lap.worker_cpu_s, 0.003);     // 6 ms a worker.
  EXPECT_DOUBLE_EQ(lap.total_cpu_s, 0.009);      // 12 ms of workers, 6 of servers.
  EXPECT_DOUBLE_EQ(lap.colocated_cpu_s, 0.001);  // 4 ms over two machines and two all-reduces.
  EXPECT_DOUBLE_EQ(lap.link_bytes, 200);         // 400 bytes a worker.
  EXPECT_EQ(lap.wrong, 3U);
  EXPECT_EQ(lap.partial, 5U);
  EXPECT_FALSE(lap.ranks_differ);
  // The late worker's time is ignored, but its CPU time counts.
  EXPECT_DOUBLE_EQ(lap_of(reports, kCpu, 2, true).seconds, 0.010);
  EXPECT_DOUBLE_EQ(lap_of(reports, kCpu, 2, true).worker_cpu_s, 0.003);
  EXPECT_DOUBLE_EQ(lap_of(std::span(reports).first(1), {}, 1, true).seconds, 0.020);
}

// Both have no wrong element, as a race with tolerances may find.
TEST(Lap, RanksAreComparedWithEachOther) {
  std::array<LapReport, 3> reports{LapReport{.digest = 7}, {.digest = 7}, {.digest = 7}};
  EXPECT_FALSE(lap_of(reports, kCpu, 1, false).ranks_differ);
  reports[2].digest = 8;
  EXPECT_TRUE(lap_of(reports, kCpu, 1, false).ranks_differ);
  EXPECT_TRUE(lap_of(reports, kCpu, 1, true).ranks_differ) << "the late rank's results count";
}

std::vector<Lap> laps_of(std::initializer_list<std::pair<uint32_t, double>> rounds_seconds) {
  std::vector<Lap> laps;
  for (const auto& [round, seconds] : rounds_seconds) {
    laps.push_back({.round = round,
                    .seconds = seconds,
                    .worker_cpu_s = seconds / 2,
                    .total_cpu_s = seconds * 3,
                    .colocated_cpu_s = seconds / 4,
                    .link_bytes = 1000 * seconds,
                    .wrong = 1,
                    .ranks_differ = round == 1});
  }
  return laps;
}

TEST(Row, ContainsMediansOverLapsAndRounds) {
  const RaceCase race{.net = "lo", .workers = 4, .bytes = 500'000'000};
  const auto laps = laps_of({{0, 1.0}, {0, 3.0}, {1, 2.0}, {1, 2.0}, {1, 8.0}});
  const auto row = row_of("x", race, laps);
  ASSERT_TRUE(row);
  EXPECT_DOUBLE_EQ(row->median_s, 2.0);
  EXPECT_DOUBLE_EQ(row->spread, 0.5);                  // Quartiles 2 and 3.
  EXPECT_DOUBLE_EQ(row->worker_cpu_s_per_gb, 2.0);     // 1 s for half a GB.
  EXPECT_DOUBLE_EQ(row->total_cpu_s_per_gb, 3.0);      // 6 s for 4 tensors of half a GB.
  EXPECT_DOUBLE_EQ(row->colocated_cpu_s_per_gb, 1.0);  // Half a second for half a GB.
  EXPECT_DOUBLE_EQ(row->link_bytes, 2000);
  EXPECT_EQ(row->wrong, 5U);
  EXPECT_EQ(row->laps_differ, 3U);  // Those of round 1.
  EXPECT_EQ(row->round_medians_s, (std::vector<double>{2.0, 2.0}));
  EXPECT_FALSE(row_of("x", race, {}));
}

TEST(PairedRatio, ComparesRoundByRound) {
  const RaceCase race{.net = "lo"};
  const auto a = row_of("a", race, laps_of({{0, 1.0}, {1, 4.0}, {2, 3.0}}));
  const auto b = row_of("b", race, laps_of({{0, 2.0}, {1, 4.0}, {2, 2.0}}));
  const auto ratio = paired_ratio(*a, *b);
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->median, 1.0);
  EXPECT_DOUBLE_EQ(ratio->min, 0.5);
  EXPECT_DOUBLE_EQ(ratio->max, 1.5);
  EXPECT_FALSE(paired_ratio(*a, *row_of("b", race, laps_of({{0, 2.0}}))));
}

TEST(LinkSeconds, CountsTheHeadersOfFullSegments) {
  // 100 MB at 1 Gbit/s: 0.8 s of payload, 1514 / 1448 with headers.
  EXPECT_NEAR(link_seconds(100'000'000, 1000, 1500), 0.8365, 0.0001);
  EXPECT_DOUBLE_EQ(wire_ratio(9000), 9014.0 / 8948.0);
}

}  // namespace
}  // namespace tributary::race
