// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked ways of one packet and of several, then random packets against a recurrence
// of the fabric, the pass through a PPE and the port. Last, Trio-ML with the egress side.
#include "engine/model/egress.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "tests/engine/model/aggregation_bed.h"
#include "tests/engine/model/script_program.h"
#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

using testing::ScriptBed;
using testing::small_machine;
using Kind = testing::Step::Kind;

constexpr uint8_t kForward = 1;
constexpr uint8_t kDrop = 2;
constexpr uint8_t kTwoMessages = 3;

/// An instruction takes 10 ns. A packet of 64 bytes is a frame of 106 bytes, which takes 42.4 ns on
/// the fabric, and of 130 bytes on the cable: 104 ns.
Parameters with_small_egress() {
  Parameters p = small_machine(Fidelity::kExact);
  p.fabric_gbit_per_s = 20;
  p.egress_instructions = 2;
  p.port_gbit_per_s = 10;
  return p;
}

class EgressTest : public ::testing::Test {
 protected:
  explicit EgressTest(const Parameters& parameters = with_small_egress()) : bed_(parameters) {
    bed_.scripts.steps[kForward] = {{.kind = Kind::kInstruction}, {.kind = Kind::kForward}};
    bed_.scripts.steps[kDrop] = {{.kind = Kind::kInstruction}, {.kind = Kind::kDrop}};
    auto* const payload = bed_.allocate<std::byte>(memory::Range::kSram, 64);
    bed_.scripts.steps[kTwoMessages] = {{.kind = Kind::kInstruction},
                                        {.kind = Kind::kSend, .count = 64, .target = payload},
                                        {.kind = Kind::kSend, .count = 64, .target = payload}};
  }
  /// Returns when packet `index` left, in hundredths of a nanosecond.
  [[nodiscard]] int64_t left_at(size_t index) const {
    return bed_.left.at(index).at.since_start().ticks();
  }

  ScriptBed bed_;
};

class NarrowEgressTest : public EgressTest {
 protected:
  static Parameters one_thread() {
    Parameters p = with_small_egress();
    p.ppe_count = 1;
    p.threads_each = 1;
    p.fabric_gbit_per_s = 0;
    return p;
  }
  NarrowEgressTest() : EgressTest(one_thread()) {}
};

TEST(Egress, CableBytes) {
  EXPECT_EQ(cable_bytes(106), 130U);
  EXPECT_EQ(cable_bytes(60), 84U);
  EXPECT_EQ(cable_bytes(10), 84U);  // The smallest frame.
  const Parameters p = with_small_egress();
  EXPECT_EQ(frame_bytes(p, PacketLayer::kFrame, 64), 64U);
  EXPECT_EQ(frame_bytes(p, PacketLayer::kUdpPayload, 64), 106U);
}

TEST(Egress, IsOffUnlessANumberSaysSo) {
  EXPECT_FALSE(Parameters().models_egress());
  EXPECT_FALSE(preset(6)->models_egress());
  for (uint32_t generation = 1; generation <= 6; generation++) {
    const Parameters p = with_egress(*preset(generation));
    EXPECT_TRUE(p.models_egress());
    EXPECT_TRUE(check(p));
    if (generation == 1) continue;
    EXPECT_GT(p.port_gbit_per_s, with_egress(*preset(generation - 1)).port_gbit_per_s);
  }
}

TEST(Carrier, CarriesOneAfterTheOther) {
  Carrier carrier(/*gbit_per_s=*/8, Instant());  // 1 byte a nanosecond.
  EXPECT_EQ(carrier.carry(Instant(), 100, 1), Instant(nanoseconds(100)));
  EXPECT_EQ(carrier.carry(Instant(nanoseconds(50)), 100, 3), Instant(nanoseconds(400)));
  EXPECT_EQ(carrier.carry(Instant(nanoseconds(1000)), 1, 1), Instant(nanoseconds(1001)));
  EXPECT_EQ(carrier.used().total(), nanoseconds(401));
  EXPECT_EQ(Carrier(3, Instant()).time_of(1, 1).ticks(), 267);  // 8 / 3 ns, rounded up.
  Carrier unlimited(0, Instant());
  EXPECT_EQ(unlimited.carry(Instant(nanoseconds(5)), 1000, 1), Instant(nanoseconds(5)));
  EXPECT_EQ(unlimited.used().total(), Duration());
}

TEST_F(EgressTest, APacketPassesFabricThreadAndPort) {
  bed_.arrive(kForward);
  bed_.run();
  ASSERT_EQ(bed_.left.size(), 1U);
  // 10 ns ingress, 42.4 ns fabric, two instructions, 104 ns port.
  EXPECT_EQ(left_at(0), 1'000 + 4'240 + 2'000 + 10'400);
  const Report report = bed_.pfe().report();
  EXPECT_EQ(report.egress_threads, 1U);
  EXPECT_EQ(report.left, 1U);
  EXPECT_EQ(report.egress_time_max.ticks(), 4'240 + 2'000 + 10'400);
  EXPECT_EQ(report.latency.mean, nanoseconds(10));  // It ends before the egress side.
  EXPECT_TRUE(bed_.pfe().is_idle());
}

TEST_F(EgressTest, PacketsQueueAtTheFabricAndAtThePort) {
  bed_.arrive(kForward);
  bed_.arrive(kForward);
  EXPECT_EQ(bed_.pfe().packets_inside(), 2U);
  bed_.run();
  ASSERT_EQ(bed_.left.size(), 2U);
  EXPECT_EQ(left_at(0), 17'640);
  EXPECT_EQ(left_at(1), 17'640 + 10'400);  // It waits for the port until 176.4 ns.
  EXPECT_EQ(bed_.pfe().packets_inside(), 0U);
}

TEST_F(EgressTest, DroppedPacketsDoNotLeave) {
  bed_.arrive(kDrop);
  bed_.run();
  EXPECT_TRUE(bed_.left.empty());
  EXPECT_EQ(bed_.pfe().report().egress_threads, 0U);
}

TEST_F(EgressTest, MessagesLeaveOnceForEachDestination) {
  bed_.arrive(kTwoMessages);
  bed_.run();
  ASSERT_EQ(bed_.left.size(), 2U);
  EXPECT_EQ(left_at(0), 17'640);
  EXPECT_EQ(left_at(1), 28'040);
  EXPECT_EQ(bed_.left[1].to, Endpoint::ipv4(0x0a0000ff, kTwoMessages));
  EXPECT_EQ(bed_.pfe().report().egress_threads, 2U);
}

TEST_F(EgressTest, ATrainTakesTheTimeOfItsPackets) {
  bed_.arrive(kForward, 64, 1, /*train=*/2);
  bed_.run();
  ASSERT_EQ(bed_.left.size(), 1U);
  EXPECT_EQ(left_at(0), 1'000 + 2 * 4'240 + 2'000 + 2 * 10'400);
  EXPECT_EQ(bed_.pfe().report().egress_threads, 2U);
}

TEST_F(EgressTest, ResourcesHaveTheirShares) {
  bed_.arrive(kForward);
  bed_.run();
  const Report report = bed_.pfe().report();
  // Threads are at work for 10 ns and, on the way out, for 20 ns.
  EXPECT_EQ(report.active, nanoseconds(30));
  ASSERT_EQ(report.resources.size(), 7U);
  EXPECT_EQ(report.resources[4].name, "ports in");
  EXPECT_DOUBLE_EQ(report.resources[4].share, 104.0 / 30);
  EXPECT_EQ(report.resources[5].name, "ports out");
  EXPECT_DOUBLE_EQ(report.resources[5].share, 104.0 / 30);
  EXPECT_EQ(report.resources[6].name, "fabric");
  EXPECT_DOUBLE_EQ(report.resources[6].share, 42.4 / 30);
  EXPECT_DOUBLE_EQ(report.resources[1].share, 3.0 / 30 / 2);  // 3 cycles of two PPEs in 30.
  bed_.pfe().reset_report();
  EXPECT_EQ(bed_.pfe().report().egress_threads, 0U);
}

TEST_F(NarrowEgressTest, LeavingPacketsGoBeforeArrivingOnes) {
  for (uint32_t i = 0; i < 3; i++) bed_.arrive(kForward);
  bed_.run();
  ASSERT_EQ(bed_.left.size(), 3U);
  // The thread: first packet 0 to 10 ns, second 10 to 20, the first's way out 20 to 40, the
  // second's 40 to 60, the third packet 60 to 70, its way out 70 to 90.
  EXPECT_EQ(left_at(0), 4'000 + 10'400);
  EXPECT_EQ(left_at(1), 14'400 + 10'400);
  EXPECT_EQ(left_at(2), 24'800 + 10'400);
}

TEST(Egress, RandomPacketsMatchARecurrence) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Parameters p = with_small_egress();
  p.ppe_count = 64;  // A thread for everybody.
  p.threads_each = 10;
  p.packet_buffer_packets = 1'000;
  ScriptBed bed(p);
  bed.scripts.steps[kForward] = {{.kind = Kind::kInstruction}, {.kind = Kind::kForward}};
  std::vector<int64_t> expected;
  int64_t now = 0, fabric_free = 0, port_free = 0;
  for (uint32_t i = 0; i < 500; i++) {
    now += prng.below(20'000);
    const uint32_t size = 1 + prng.below(1'400);
    bed.core.run_until(Instant(Duration::from_ticks(now)));
    bed.arrive(kForward, size);
    // Ticks: 40 a byte on the fabric, 80 a byte on the cable.
    fabric_free = std::max(now + 1'000, fabric_free) + int64_t{size + 42} * 40;
    port_free = std::max(fabric_free + 2'000, port_free) + std::max(size + 42 + 24, 84U) * 80;
    expected.push_back(port_free);
  }
  bed.run();
  ASSERT_EQ(bed.left.size(), expected.size());
  for (uint32_t i = 0; i < expected.size(); i++) {
    ASSERT_EQ(bed.left[i].at.since_start().ticks(), expected[i]) << "packet " << i;
  }
}

TEST(Egress, TrioMlHasExactSumsAndAResultForEachServer) {
  testing::AggregationConfig config;
  config.parameters = with_egress(*preset(5));
  config.gradients = 64;
  config.window = 8;
  config.blocks = 100;
  config.elided = false;
  testing::AggregationBed bed(config);
  ASSERT_TRUE(bed.run());
  for (const auto& [block, lanes] : bed.sums()) {
    for (uint32_t i = 0; i < lanes.size(); i++) ASSERT_EQ(lanes[i], bed.expected(block, i));
  }
  const Report report = bed.pfe().report();
  EXPECT_EQ(report.egress_threads, uint64_t{config.blocks} * config.servers);
  EXPECT_EQ(report.left, report.egress_threads);
}

}  // namespace
}  // namespace tributary::engine
