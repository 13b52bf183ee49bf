// SPDX-License-Identifier: Apache-2.0
// Method: the filter's rate by hand from its instructions; then more PPEs, and refused traffic.
#include "programs/rate_prediction.h"

#include <gtest/gtest.h>

namespace tributary::programs {
namespace {

traffic::Config some_traffic() {
  traffic::Config config;
  config.packets = 2'000;
  config.background = {.flows = 100, .rate = 1e6, .ipv6_percent = 0};
  return config;
}

TEST(RatePrediction, FilterIsBoundByItsInstructions) {
  const engine::Parameters chip;
  const auto limit = predict_rate(*find_program("filter"), chip, some_traffic());
  ASSERT_TRUE(limit) << limit.error().text;
  // 101 PPEs issue an instruction each nanosecond; an IPv4 packet takes three.
  EXPECT_NEAR(limit->packets_per_s, 101e9 / 3, 1e7);
}

TEST(RatePrediction, LaterGenerationsAreFaster) {
  double before = 0;
  for (uint32_t generation = 1; generation <= 6; generation++) {
    traffic::Config traffic = some_traffic();
    traffic.background.flows = 2'000;
    traffic.background.zipf = 0;
    const auto limit =
        predict_rate(*find_program("telemetry"), *engine::preset(generation), traffic);
    ASSERT_TRUE(limit) << limit.error().text;
    EXPECT_GT(limit->packets_per_s, before) << generation;
    before = limit->packets_per_s;
  }
}

// Packets of a slow capture find other states of the policers, so their own work differs, too.
TEST(RatePrediction, TimerThreadsOfASlowCaptureAreNotChargedToPackets) {
  double fast = 0;
  for (const double rate : {1e6, 1e3}) {  // Of 2,000 packets: 2 ms, and 2 s.
    traffic::Config traffic = some_traffic();
    traffic.background.rate = rate;
    const auto limit = predict_rate(*find_program("guard"), engine::Parameters(), traffic);
    ASSERT_TRUE(limit) << limit.error().text;
    if (fast == 0) fast = limit->packets_per_s;
    EXPECT_GT(limit->packets_per_s, 0.7 * fast);
  }
}

TEST(RatePrediction, OneFlowIsBoundByItsBank) {
  traffic::Config traffic = some_traffic();
  traffic.background.flows = 1;
  traffic.background.churn = 0;
  const auto limit = predict_rate(*find_program("telemetry"), engine::Parameters(), traffic);
  ASSERT_TRUE(limit) << limit.error().text;
  EXPECT_EQ(limit->resource, "busiest RMW bank");
}

TEST(RatePrediction, RefusesTrafficOutOfRange) {
  traffic::Config config = some_traffic();
  config.background.flows = 0;
  const auto limit = predict_rate(*find_program("filter"), engine::Parameters(), config);
  ASSERT_FALSE(limit);
  EXPECT_FALSE(limit.error().text.empty());
}

}  // namespace
}  // namespace tributary::programs
