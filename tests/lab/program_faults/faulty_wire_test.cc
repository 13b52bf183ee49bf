// SPDX-License-Identifier: Apache-2.0
// Method: a clean wire, then each fault alone at a high rate, whose count must match the packets.
//         show.
#include "lab/program_faults/faulty_wire.h"

#include <gtest/gtest.h>

namespace tributary::lab {
namespace {

constexpr uint32_t kPackets = 500;

ProgramFaultPlan plan_with(WireFault fault, double rate) {
  ProgramFaultPlan plan;
  plan.seed = 3;
  plan.traffic.packets = kPackets;
  plan.traffic.background.flows = 10;
  plan.rates[static_cast<size_t>(fault)] = rate;
  return plan;
}

FaultyTraffic traffic_with(WireFault fault, double rate) {
  auto traffic = faulty_traffic(plan_with(fault, rate));
  EXPECT_TRUE(traffic);
  return *std::move(traffic);
}

uint64_t count_of(const FaultyTraffic& traffic, WireFault fault) {
  return traffic.faults[static_cast<size_t>(fault)];
}

TEST(FaultyWire, CleanWireChangesNothing) {
  const FaultyTraffic traffic = traffic_with(WireFault::kLoss, 0);
  ASSERT_EQ(traffic.packets.size(), kPackets);
  for (size_t i = 0; i < traffic.packets.size(); i++) {
    EXPECT_EQ(traffic.packets[i].bytes.size(), traffic.packets[i].wire_bytes);
    if (i == 0) continue;
    EXPECT_GE(traffic.packets[i].at_ns, traffic.packets[i - 1].at_ns);
  }
}

TEST(FaultyWire, CountsWhatItLosesAndAdds) {
  const FaultyTraffic lossy = traffic_with(WireFault::kLoss, 0.3);
  EXPECT_GT(count_of(lossy, WireFault::kLoss), 0U);
  EXPECT_EQ(lossy.packets.size() + count_of(lossy, WireFault::kLoss), kPackets);
  for (const WireFault fault : {WireFault::kDuplication, WireFault::kGarbage}) {
    const FaultyTraffic traffic = traffic_with(fault, 0.3);
    EXPECT_GT(count_of(traffic, fault), 0U);
    EXPECT_EQ(traffic.packets.size(), kPackets + count_of(traffic, fault));
  }
}

TEST(FaultyWire, ShortensFramesOrTheirCapture) {
  const FaultyTraffic clean = traffic_with(WireFault::kLoss, 0);
  uint64_t shorter = 0, cut = 0;
  const FaultyTraffic truncated = traffic_with(WireFault::kTruncation, 0.5);
  const FaultyTraffic captured = traffic_with(WireFault::kCut, 0.5);
  for (size_t i = 0; i < kPackets; i++) {
    shorter += truncated.packets[i].wire_bytes < clean.packets[i].wire_bytes ? 1 : 0;
    EXPECT_EQ(captured.packets[i].wire_bytes, clean.packets[i].wire_bytes);
    cut += captured.packets[i].bytes.size() < clean.packets[i].bytes.size() ? 1 : 0;
  }
  EXPECT_EQ(shorter, count_of(truncated, WireFault::kTruncation));
  EXPECT_EQ(cut, count_of(captured, WireFault::kCut));
}

TEST(FaultyWire, ReordersAndStepsTheClock) {
  for (const WireFault fault : {WireFault::kReordering, WireFault::kClockStep}) {
    const FaultyTraffic traffic = traffic_with(fault, 0.3);
    EXPECT_GT(count_of(traffic, fault), 0U);
    bool falls = false;
    for (size_t i = 1; i < traffic.packets.size(); i++) {
      falls |= traffic.packets[i].at_ns < traffic.packets[i - 1].at_ns;
    }
    EXPECT_TRUE(falls) << to_string(fault);
  }
}

TEST(FaultyWire, RefusesTrafficOutOfRange) {
  ProgramFaultPlan plan = plan_with(WireFault::kLoss, 0);
  plan.traffic.packets = 0;
  EXPECT_FALSE(faulty_traffic(plan));
}

}  // namespace
}  // namespace tributary::lab
