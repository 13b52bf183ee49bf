// SPDX-License-Identifier: Apache-2.0
// Method: the defaults pass; then each value just outside its range is refused by name.
#include "traffic/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace tributary::traffic {
namespace {

using ::testing::StartsWith;

/// Returns the error of the defaults, with a flood and a flash crowd, after `change`.
std::string refusal(const std::function<void(Config&)>& change) {
  Config config;
  config.flood.emplace();
  config.flash_crowd.emplace();
  change(config);
  const auto checked = check(config);
  return checked ? "accepted" : checked.error().text;
}

TEST(TrafficConfig, AcceptsDefaults) {
  EXPECT_TRUE(check({}));
  EXPECT_EQ(refusal([](Config&) {}), "accepted");
}

TEST(TrafficConfig, NamesTheFirstValueOutOfRange) {
  EXPECT_EQ(refusal([](Config& c) { c.background.flows = 0; }),
            "flows=0 is out of range; allowed: from 1 to 10000000");
  EXPECT_THAT(refusal([](Config& c) { c.background.flows = kFlowsMax + 1; }), StartsWith("flows="));
  EXPECT_THAT(refusal([](Config& c) { c.packets = 0; }), StartsWith("packets=0"));
  EXPECT_THAT(refusal([](Config& c) { c.length = seconds(-1); }), StartsWith("length=-1"));
  EXPECT_THAT(refusal([](Config& c) { c.background.zipf = 5.1; }), StartsWith("zipf=5.1"));
  EXPECT_THAT(refusal([](Config& c) { c.background.zipf = -0.1; }), StartsWith("zipf=-0.1"));
  EXPECT_THAT(refusal([](Config& c) { c.background.rate = 0.5; }), StartsWith("rate=0.5"));
  EXPECT_THAT(
      refusal([](Config& c) { c.background.rate = std::numeric_limits<double>::quiet_NaN(); }),
      StartsWith("rate=nan"));
  EXPECT_THAT(refusal([](Config& c) { c.background.churn = 2e9; }), StartsWith("churn="));
  // Else a generator would spend its time between packets.
  EXPECT_THAT(refusal([](Config& c) {
                c.background.rate = 10;
                c.background.churn = 1'001;
              }),
              StartsWith("churn=1001 is out of range; allowed: from 0 to 1000"));
  EXPECT_THAT(refusal([](Config& c) { c.background.servers = 0; }), StartsWith("servers=0"));
  EXPECT_THAT(refusal([](Config& c) { c.background.servers = kServersMax + 1; }),
              StartsWith("servers=65535"));
  EXPECT_THAT(refusal([](Config& c) { c.background.ipv6_percent = 101; }),
              StartsWith("IPv6 percent=101"));
  EXPECT_THAT(refusal([](Config& c) { c.background.udp_percent = 101; }),
              StartsWith("UDP percent=101"));
}

TEST(TrafficConfig, ChecksFloodsAndFlashCrowds) {
  EXPECT_THAT(refusal([](Config& c) { c.flood->rate = 0; }), StartsWith("flood rate=0"));
  EXPECT_THAT(refusal([](Config& c) { c.flood->start = seconds(-1); }),
              StartsWith("flood start=-1"));
  EXPECT_THAT(refusal([](Config& c) { c.flood->length = Duration(); }),
              StartsWith("flood length=0"));
  EXPECT_THAT(refusal([](Config& c) { c.flood->sources = 10'000'001; }),
              StartsWith("flood sources=10000001"));
  EXPECT_THAT(refusal([](Config& c) { c.flood->pulse_on = Duration(); }), StartsWith("pulse on=0"));
  EXPECT_THAT(refusal([](Config& c) { c.flash_crowd->sources = 0; }),
              StartsWith("flash crowd sources=0"));
  EXPECT_THAT(refusal([](Config& c) { c.flash_crowd->spread = Duration(); }),
              StartsWith("flash crowd spread=0"));
}

TEST(TrafficConfig, FloodKindsHaveNames) {
  for (const FloodKind kind : {FloodKind::kSyn, FloodKind::kAmplification, FloodKind::kPulse}) {
    EXPECT_EQ(parse_flood_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(parse_flood_kind("sin"), std::nullopt);
  EXPECT_EQ(parse_flood_kind(""), std::nullopt);
}

}  // namespace
}  // namespace tributary::traffic
