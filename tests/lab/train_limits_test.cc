// SPDX-License-Identifier: Apache-2.0
// Method: sizes by hand, then the longest train that a queue and a marking threshold allow, and the
// next one, which is refused.
#include "lab/train_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

/// Packets of 4096 + 32 + 66 = 4194 bytes.
Scenario of(Backend backend, uint32_t train) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = 8;
  scenario.train = train;
  return scenario;
}

std::string refusal(const Scenario& scenario) {
  const auto refused = find_refusal(scenario);
  return refused ? refused->text : "accepted";
}

TEST(TrainLimits, PacketsHaveEveryHeader) {
  Scenario scenario;
  EXPECT_EQ(wire_bytes_of_packet(scenario, backend_kind(Backend::kTrioMl)), 4194U);
  EXPECT_EQ(wire_bytes_of_packet(scenario, backend_kind(Backend::kRing)), 4194U);
  // 256 elements, 10 bytes of head and 66 around them, whatever `gradients` says.
  EXPECT_EQ(wire_bytes_of_packet(scenario, backend_kind(Backend::kSwitchml256)), 1100U);
  scenario.gradients = 64;
  EXPECT_EQ(wire_bytes_of_packet(scenario, backend_kind(Backend::kTrioMl)), 354U);
}

TEST(TrainLimits, QueueHoldsATrain) {
  Scenario scenario = of(Backend::kTrioMl, 16);
  scenario.link.queue_bytes_max = 16 * 4194;
  EXPECT_EQ(refusal(scenario), "accepted");
  scenario.train = 32;
  EXPECT_EQ(refusal(scenario),
            "train=32 is not allowed; allowed: 1 to 16: that many packets of 4194 bytes fit into "
            "link.queue_bytes=67104");
  scenario.train = 1;
  scenario.link.queue_bytes_max = 4193;
  EXPECT_EQ(refusal(scenario),
            "link.queue_bytes=4193 is not allowed; allowed: at least 4194, one packet of 1024 "
            "gradients");
}

TEST(TrainLimits, FabricCountsWhereThereIsOne) {
  Scenario scenario = of(Backend::kTrioMl, 2);
  scenario.fabric.queue_bytes_max = 4194;
  EXPECT_EQ(refusal(scenario), "accepted");
  scenario.topology = Topology::kTwoLevel;
  EXPECT_THAT(refusal(scenario), HasSubstr("fit into fabric.queue_bytes=4194"));
  scenario.train = 1;
  EXPECT_EQ(refusal(scenario), "accepted");
}

TEST(TrainLimits, SmallestWindowsStayBelowTheMarks) {
  Scenario scenario = of(Backend::kTrioMlWait, 4);
  scenario.topology = Topology::kLeafSpine;
  scenario.host.congestion = host::CongestionControl::kDctcp;
  scenario.fabric.ecn_bytes = 200'000;
  // 8 x 4 x 4194 = 134,208 bytes; with trains of 8, 268,416.
  EXPECT_EQ(refusal(scenario), "accepted");
  scenario.train = 8;
  EXPECT_EQ(refusal(scenario),
            "train=8 is not allowed; allowed: 1 to 4 with host.congestion=dctcp: a window is at "
            "least one train, and a train of each of 8 workers must stay below "
            "fabric.ecn_bytes=200000");
  scenario.host.congestion = host::CongestionControl::kNone;
  EXPECT_EQ(refusal(scenario), "accepted");
  // Single packets may exceed the threshold, too, as those of real workers.
  scenario.host.congestion = host::CongestionControl::kAimd;
  scenario.train = 1;
  scenario.fabric.ecn_bytes = 10'000;
  EXPECT_EQ(refusal(scenario), "accepted");
}

TEST(TrainLimits, OnlyPacketsOnOneLinkAddUp) {
  // At a switch that adds, each worker has a cable of its own; at servers, all share each cable.
  Scenario scenario = of(Backend::kTrioMl, 8);
  scenario.host.congestion = host::CongestionControl::kAimd;
  scenario.link.ecn_bytes = 200'000;
  EXPECT_EQ(refusal(scenario), "accepted");
  scenario.backend = Backend::kPsDedicated;
  EXPECT_THAT(refusal(scenario), HasSubstr("allowed: 1 to 4 with host.congestion=aimd"));
}

}  // namespace
}  // namespace tributary::lab
