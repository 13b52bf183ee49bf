// SPDX-License-Identifier: Apache-2.0
// Method: the truth of generated traces against a count of every frame in plain code.
#include "lab/telemetry/flow_truth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "tests/support/seed.h"
#include "traffic/generator.h"

namespace tributary::lab {
namespace {

traffic::Config small_trace(uint64_t seed) {
  traffic::Config trace;
  trace.seed = seed;
  trace.packets = 5'000;
  trace.background.flows = 200;
  trace.background.churn = 1'000;
  return trace;
}

TEST(FlowTruth, MatchesACountOfEveryFrame) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  constexpr uint32_t kTop = 20;
  const auto truth = FlowTruth::create(small_trace(seed), kTop);
  ASSERT_TRUE(truth.has_value()) << truth.error().text;

  std::map<FlowKey, std::vector<Instant>> arrivals;
  auto generator = *traffic::Generator::create(small_trace(seed));
  while (const auto packet = generator.next()) {
    const auto key = flow_of(packet->frame);
    ASSERT_TRUE(key.has_value());
    arrivals[*key].push_back(packet->at);
  }
  std::vector<uint64_t> sizes;
  for (const auto& [key, times] : arrivals) sizes.push_back(times.size());
  std::ranges::sort(sizes, std::greater<>());

  EXPECT_EQ(truth->packets(), 5'000U);
  EXPECT_EQ(truth->flow_count(), arrivals.size());
  EXPECT_EQ(truth->threshold(), sizes[kTop - 1]);
  size_t large = 0;
  for (const auto& [key, times] : arrivals) {
    if (times.size() < truth->threshold()) continue;
    large++;
    ASSERT_TRUE(truth->large().contains(key));
    EXPECT_EQ(truth->large().at(key).packets, times.size());
    EXPECT_EQ(truth->large().at(key).reached_at, times[truth->threshold() - 1]);
  }
  EXPECT_EQ(truth->large().size(), large);
  EXPECT_GE(large, kTop);
}

TEST(FlowTruth, FewerFlowsThanAskedForAreAllLarge) {
  auto trace = small_trace(1);
  trace.background.flows = 3;
  trace.background.churn = 0;
  const auto truth = FlowTruth::create(trace, 100);
  ASSERT_TRUE(truth.has_value());
  EXPECT_EQ(truth->flow_count(), 3U);
  EXPECT_EQ(truth->large().size(), 3U);
}

TEST(FlowTruth, RefusesAWrongTrace) {
  auto trace = small_trace(1);
  trace.background.flows = 0;
  EXPECT_FALSE(FlowTruth::create(trace, 1).has_value());
}

TEST(FlowOf, ReadsNoFlowFromOtherFrames) {
  const std::vector<std::byte> zeros(64);
  EXPECT_FALSE(flow_of(zeros).has_value());
  EXPECT_FALSE(flow_of({}).has_value());
}

}  // namespace
}  // namespace tributary::lab
