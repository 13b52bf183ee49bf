// SPDX-License-Identifier: Apache-2.0
// Method: the shared sums by hand, then rows from outcomes written by hand. Last, the quick figures
// are run and compared with the paper's text.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "lab/figures/switchml.h"
#include "lab/sweep/runner.h"
#include "tests/lab/figures/quick_figure.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

TEST(SwitchmlFigures, MaximumGoodputMatchesHandWorkedValues) {
  // 256 x 4 + 10 + 66 = 1100 bytes, 8.8 us at 1 Gbit/s: 256 elements of them, 29.09 a microsecond.
  EXPECT_NEAR(maximum_goodput(1, 256, 10), 29.0909, 1e-4);
  EXPECT_NEAR(maximum_goodput(100, 256, 10), 2909.09, 1e-2);
  // 93 % and 77 % of 31.25 (SwitchML paper §5).
  EXPECT_NEAR(maximum_goodput(1, 256, 10) / 31.25, 0.93, 0.005);
  EXPECT_NEAR(maximum_goodput(1, 64, 10) / 31.25, 0.77, 0.005);
  EXPECT_EQ(paper_pool(10), 128U);
  EXPECT_EQ(paper_pool(100), 512U);
}

TEST(SwitchmlFigures, PointsMatchTheRun) {
  const auto point = tensor_point({.seed = 7}, {.backend = Backend::kSwitchml64,
                                                .workers = 4,
                                                .gbps = 100,
                                                .pool = 256,
                                                .loss = 0.01,
                                                .tensor_bytes = 4000,
                                                .timeline = {.link = {}, .bin = milliseconds(2)}});
  ASSERT_TRUE(point) << point.error().text;
  EXPECT_EQ(point->scenario.backend, Backend::kSwitchml64);
  EXPECT_EQ(point->scenario.switchml.pool, 256U);
  EXPECT_EQ(point->scenario.link.rate_bits_per_s, 100'000'000'000U);
  EXPECT_EQ(point->scenario.host.nic_bits_per_s, 100'000'000'000U);
  EXPECT_TRUE(point->scenario.host.retransmission);
  EXPECT_EQ(point->scenario.timeline.bin, milliseconds(2));
  EXPECT_EQ(point->scenario.seed, 7U);
}

TEST(Switchml3, RowsMatchHandWorkedValues) {
  const auto points = switchml_3().points(kQuick);
  ASSERT_TRUE(points);
  ASSERT_EQ(points->size(), 24U);  // Two rates, four systems, three numbers of workers.
  // 500,000 elements in 0.4 ms are 1250 a microsecond.
  PointOutcome outcome;
  outcome.result.mean_iteration = microseconds(400);
  const std::vector<PointOutcome> outcomes(24, outcome);
  const FigureOutcome figure = switchml_3().finish(kQuick, *points, outcomes);
  EXPECT_DOUBLE_EQ(value_at(figure, "100G switchml-64", 8), 1250);
  EXPECT_DOUBLE_EQ(value_at(figure, "100G switchml-64 of the line", 8), 0.4);
  EXPECT_NEAR(value_at(figure, "100G switchml-256 of the most", 16), 1250 / 2909.09, 1e-5);
  EXPECT_EQ(figure.plots.size(), 2U);
  // The paper measures RDMA with packets of 256 (§6.1). Its 93 % and 77 % are arithmetic (§5).
  uint32_t with_paper = 0;
  for (const FigureRow& row : figure.rows) {
    if (!row.paper) continue;
    with_paper++;
    EXPECT_EQ(row.series, "100G switchml-256 RDMA of the most");
    EXPECT_EQ(row.paper, 0.98);
  }
  EXPECT_EQ(with_paper, 3U);  // Numbers of workers.
  // A line of the paper is drawn once, not for each kind of host.
  std::set<std::string> lines;
  for (const PlotSeries& series : figure.plots[1].series) {
    EXPECT_TRUE(lines.insert(series.name).second) << series.name;
  }
  EXPECT_EQ(switchml_3().points({})->size(), 42U);
}

TEST(Switchml3, GoodputIsNearTheMaximumForAnyWorkers) {
  const FigureOutcome figure = quick_outcome(switchml_3());
  for (const char* name : {"10G switchml-{}", "10G switchml-{} RDMA", "100G switchml-{} RDMA"}) {
    for (const int elements : {256, 64}) {
      const std::string series = fmt::format(fmt::runtime(name), elements);
      for (const double workers : {4.0, 8.0, 16.0}) {
        // The quick tensor is short: filling and draining the pool takes 3 % of it at 100 Gbit/s.
        EXPECT_GT(value_at(figure, series + " of the most", workers), 0.94) << series;
        EXPECT_LE(value_at(figure, series + " of the most", workers), 1.0) << series;
      }
      EXPECT_NEAR(value_at(figure, series, 16) / value_at(figure, series, 4), 1, 0.01) << series;
    }
  }
}

/// Returns the longest time that a slot waits for timeouts if links took no time. Each worker's
/// packet and each copy of the result is lost with probability `loss`. A worker without its result
/// retransmits every millisecond.
double longest_waiting_ms(uint32_t slots, uint32_t packets, double loss, uint64_t seed) {
  constexpr uint32_t kWorkers = 8;
  tributary::testing::Prng prng(seed);
  double longest = 0;
  for (uint32_t slot = 0; slot < slots; slot++) {
    std::array<double, kWorkers> sent_at{};  // First transmission of each worker.
    for (uint32_t packet = slot; packet < packets; packet += slots) {
      std::array<double, kWorkers> asks_at = sent_at;
      double complete_at = 0;
      for (double& at : asks_at) {
        while (prng.chance(loss)) at += 1;
        complete_at = std::max(complete_at, at);
      }
      for (uint32_t worker = 0; worker < kWorkers; worker++) {
        if (!prng.chance(loss)) {
          sent_at[worker] = complete_at;
          continue;
        }
        // The packet and its result must both arrive.
        double at = sent_at[worker];
        do {
          at += 1;
        } while (at < complete_at || prng.chance(loss) || prng.chance(loss));
        sent_at[worker] = at;
      }
    }
    longest = std::max(longest, *std::max_element(sent_at.begin(), sent_at.end()));
  }
  return longest;
}

TEST(Switchml6, RowsWithLossAreMeansOverSeeds) {
  const FigureOptions options{.seed = 3, .seeds = 3, .quick = true};
  const auto points = switchml_6().points(options);
  ASSERT_TRUE(points);
  ASSERT_EQ(points->size(),
            30U);  // Three systems: one point without loss, three seeds of three losses.
  EXPECT_EQ(points->at(1).scenario.seed, 3U);
  EXPECT_EQ(points->at(3).scenario.seed, 5U);
  std::vector<PointOutcome> outcomes(30);
  for (PointOutcome& outcome : outcomes) outcome.result.mean_iteration = milliseconds(10);
  outcomes[1].result.mean_iteration = milliseconds(11);
  outcomes[2].result.mean_iteration = milliseconds(12);
  outcomes[3].result.mean_iteration = milliseconds(13);
  const FigureOutcome figure = switchml_6().finish(options, *points, outcomes);
  EXPECT_DOUBLE_EQ(value_at(figure, "switchml-256 time", 0.01), 12);
  EXPECT_DOUBLE_EQ(value_at(figure, "switchml-256 inflation", 0.01), 1.2);
  EXPECT_FALSE(figure.rows[0].sample);
  EXPECT_EQ(figure.rows[2].sample->low, 11);
  EXPECT_EQ(figure.rows[2].sample->high, 13);
  EXPECT_EQ(switchml_7().points(options)->size(), 7U);
  EXPECT_EQ(switchml_6().points({})->size(), 3U + 9U * 20);
}

TEST(Switchml6, InflationEqualsTheTimeOutsOfTheSlots) {
  const FigureOutcome figure = quick_outcome(switchml_6());
  constexpr uint32_t kElements = 1'000'000;  // Elements of the quick tensor.
  for (const auto& [system, elements] : {std::pair{"switchml-256", 256U}, {"switchml-64", 64U}}) {
    const auto value = [&](const char* of, double percent) {
      return value_at(figure, fmt::format("{} {}", system, of), percent);
    };
    const double calm = value("time", 0);
    EXPECT_EQ(value("inflation", 0), 1);
    for (const double percent : {0.01, 0.1, 1.0}) {
      std::vector<double> draws;
      for (uint64_t seed = 0; seed < 9; seed++) {
        draws.push_back(longest_waiting_ms(paper_pool(10), (kElements + elements - 1) / elements,
                                           percent / 100, seed));
      }
      std::sort(draws.begin(), draws.end());
      // Slots wait in parallel and share the link meanwhile. The time is at least the longer of the
      // two and at most their sum. Draws differ.
      const double time = value("time", percent);
      EXPECT_GE(time, std::max(calm, draws.front())) << system << " " << percent;
      EXPECT_LE(time, calm + draws.back() + 0.5) << system << " " << percent;
      EXPECT_NEAR(value("inflation", percent), time / calm, 1e-9);
    }
  }
  for (const double percent : {0.01, 0.1, 1.0}) {
    EXPECT_GE(value_at(figure, "ring inflation", percent), 1) << percent;
    EXPECT_LT(value_at(figure, "ring inflation", percent), 3) << percent;
  }
}

TEST(Switchml7, CountsEveryPacketOnce) {
  const FigureOutcome figure = quick_outcome(switchml_7());
  double calm = 0;
  double lossy = 0;
  for (const FigureRow& row : figure.rows) {
    if (row.series == "loss 0 %") calm += row.here;
    if (row.series == "loss 1 %") lossy += row.here;
  }
  EXPECT_EQ(calm, 3907);   // 10^6 elements in packets of 256.
  EXPECT_GT(lossy, 3907);  // Those, and the retransmissions.
  EXPECT_GT(value_at(figure, "loss 1 %: time", 1), value_at(figure, "loss 0 %: time", 0));
  EXPECT_EQ(figure.plots.at(0).series.size(), 3U);
}

TEST(Switchml9, LargerPoolIsFasterUntilTheLinkIsFull) {
  const FigureOutcome figure = quick_outcome(switchml_9());
  for (const char* hosts : {"DPDK", "RDMA"}) {
    const auto value = [&](const char* of, double pool) {
      return value_at(figure, fmt::format("{}: {}", hosts, of), pool);
    };
    EXPECT_GT(value("time", 32), 1.2 * value("time", 512)) << hosts;
    EXPECT_NEAR(value("time", 128), value("time", 512), 0.01 * value("time", 512)) << hosts;
    EXPECT_GT(value("round trip", 512), 1.5 * value("round trip", 32)) << hosts;
  }
  // 128 packets of 91 ns are less than a round trip of 31 us.
  EXPECT_NEAR(value_at(figure, "DPDK, 24 us farther: round trip", 32), 31.3, 0.2);
  EXPECT_GT(value_at(figure, "DPDK, 24 us farther: time", 128),
            1.5 * value_at(figure, "DPDK, 24 us farther: time", 512));
  EXPECT_EQ(figure.plots.size(), 2U);
}

}  // namespace
}  // namespace tributary::lab
