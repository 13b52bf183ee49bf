// SPDX-License-Identifier: Apache-2.0
// Method: placements and times worked by hand from equations 1, 2 and 6 of the BytePS paper, then a
// link of half the speed.
#include "bench/race/placement.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tributary::race {
namespace {

const NetKind& kEqual = *find_net_kind("netns-1gbit-equal");

RaceCase with(uint32_t workers, uint32_t servers) {
  return {.net = "netns-1gbit-equal", .workers = workers, .bytes = 100'000'000, .servers = servers};
}

/// Returns the weights, with a colon between spare machines and workers.
std::string weights(const NetKind& kind, const RaceCase& race) {
  std::string text;
  bool colon = false;
  for (const Aggregator& aggregator : place_aggregators(kind, race)) {
    if (aggregator.colocated && !colon) text += ":";
    colon = colon || aggregator.colocated;
    text += std::to_string(aggregator.weight) + " ";
  }
  return text;
}

TEST(Placement, WeightsFollowEquations1And2) {
  // A spare machine sums 2(n - 1) of n^2 + kn - 2k parts, a worker's machine n - k.
  EXPECT_EQ(weights(kEqual, with(4, 0)), ":1 1 1 1 ");
  EXPECT_EQ(weights(kEqual, with(4, 1)), "2 :1 1 1 1 ");      // 6 and 3 of 18.
  EXPECT_EQ(weights(kEqual, with(4, 2)), "3 3 :1 1 1 1 ");    // 6 and 2 of 20.
  EXPECT_EQ(weights(kEqual, with(6, 1)), "2 :1 1 1 1 1 1 ");  // 10 and 5 of 40.
}

TEST(Placement, AsManySpareMachinesAsWorkersNeedNoColocatedAggregator) {
  EXPECT_EQ(weights(kEqual, with(4, 4)), "1 1 1 1 ");
  for (const Aggregator& aggregator : place_aggregators(kEqual, with(2, 8))) {
    EXPECT_FALSE(aggregator.colocated);
  }
}

TEST(Placement, IndicesNameTheMachines) {
  const auto aggregators = place_aggregators(kEqual, with(2, 1));
  ASSERT_EQ(aggregators.size(), 3U);
  EXPECT_EQ(aggregators[0], (Aggregator{.colocated = false, .index = 0, .weight = 2}));
  EXPECT_EQ(aggregators[1], (Aggregator{.colocated = true, .index = 0, .weight = 1}));
  EXPECT_EQ(aggregators[2], (Aggregator{.colocated = true, .index = 1, .weight = 1}));
}

TEST(Placement, OneServerWhereItsLinkIsUnlimited) {
  for (const char* net : {"lo", "netns", "netns-1gbit", "shm"}) {
    const auto aggregators = place_aggregators(*find_net_kind(net), with(4, 0));
    ASSERT_EQ(aggregators.size(), 1U) << net;
    EXPECT_FALSE(aggregators[0].colocated) << net;
  }
}

TEST(Placement, OptimumFollowsEquation6) {
  const double link_s = link_seconds(100'000'000, 1000, 1500);
  EXPECT_NEAR(optimum_seconds(kEqual, with(4, 0)), link_s * 24 / 16, 1e-6);
  EXPECT_NEAR(optimum_seconds(kEqual, with(4, 1)), link_s * 24 / 18, 1e-6);
  EXPECT_NEAR(optimum_seconds(kEqual, with(4, 2)), link_s * 24 / 20, 1e-6);
  EXPECT_NEAR(optimum_seconds(kEqual, with(4, 4)), link_s, 1e-6);
  EXPECT_NEAR(optimum_seconds(kEqual, with(4, 8)), link_s, 1e-6);
  EXPECT_NEAR(optimum_seconds(kEqual, with(6, 2)), link_s * 60 / 44, 1e-6);
}

TEST(Placement, AServerWithHalfTheSpeedGetsHalfTheShare) {
  const NetKind& half = *find_net_kind("netns-1gbit-half");
  // The time is 2n(n - 1) / ((n - 2) S + n^2), where S is 1.5, the sum of the spare links' rates.
  const double link_s = link_seconds(100'000'000, 1000, 1500);
  EXPECT_NEAR(optimum_seconds(half, with(4, 2)), link_s * 24 / 19, 1e-6);
  const auto aggregators = place_aggregators(half, with(4, 2));
  ASSERT_EQ(aggregators.size(), 6U);
  EXPECT_NEAR(1.0 * aggregators[1].weight / aggregators[0].weight, 2.0, 0.01);
  const double sum = std::accumulate(
      aggregators.begin(), aggregators.end(), 0.0,
      [](double so_far, const Aggregator& aggregator) { return so_far + aggregator.weight; });
  EXPECT_NEAR(aggregators[1].weight / sum, 24.0 / 19 / 4, 1e-3);
}

TEST(Placement, AnOnlyAggregatorIsListedWithoutAWeight) {
  const RaceNetwork network = *RaceNetwork::make(*find_net_kind("lo"), 2);
  EXPECT_EQ(aggregator_list(place_aggregators(network.kind(), with(2, 0)), network, 7000),
            "127.0.0.1:7000");
}

}  // namespace
}  // namespace tributary::race
