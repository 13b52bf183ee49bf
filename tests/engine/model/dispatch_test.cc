// SPDX-License-Identifier: Apache-2.0
// Method: small engines by hand, then random starts and ends against the rule, written as a loop
// over all PPEs. Then flows, against header bytes worked out by hand.
#include "engine/model/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "tests/support/seed.h"
#include "wire/headers.h"

namespace tributary::engine {
namespace {

TEST(AvailabilityDispatch, SpreadsOverIdlePpesFirst) {
  AvailabilityDispatch dispatch({.ppe_count = 3, .threads_each = 2});
  const std::array<PpeThread, 6> expected{{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}}};
  for (const PpeThread& thread : expected) EXPECT_EQ(dispatch.start(), thread);
  EXPECT_EQ(dispatch.start(), std::nullopt);
  EXPECT_EQ(dispatch.busy_count(), 6U);
}

TEST(AvailabilityDispatch, LeastLoadedComesFirst) {
  AvailabilityDispatch dispatch({.ppe_count = 3, .threads_each = 2});
  for (int i = 0; i < 6; i++) EXPECT_TRUE(dispatch.start().has_value());
  dispatch.finish({1, 0});
  dispatch.finish({2, 0});
  dispatch.finish({2, 1});
  EXPECT_EQ(dispatch.load(0), 2U);
  EXPECT_EQ(dispatch.load(1), 1U);
  EXPECT_EQ(dispatch.load(2), 0U);
  EXPECT_EQ(dispatch.start(), (PpeThread{2, 0}));  // The idle PPE.
  EXPECT_EQ(dispatch.start(), (PpeThread{1, 0}));  // Ties with 2; 0 comes next, but is full.
  EXPECT_EQ(dispatch.start(), (PpeThread{2, 1}));
  EXPECT_EQ(dispatch.start(), std::nullopt);
}

TEST(AvailabilityDispatchDeathTest, EndingAnIdleThreadStops) {
  AvailabilityDispatch dispatch({.ppe_count = 2, .threads_each = 2});
  EXPECT_DEATH(dispatch.finish({0, 0}), "busy_");
  EXPECT_DEATH(dispatch.finish({2, 0}), "ppe_count");
  EXPECT_DEATH(dispatch.finish({0, 2}), "threads_each");
}

/// Returns the PPE that the rule in the header selects.
std::optional<uint32_t> expected_ppe(const AvailabilityDispatch& dispatch, uint32_t ppe_count,
                                     uint32_t threads_each, uint32_t after) {
  std::optional<uint32_t> best;
  for (uint32_t i = 0; i < ppe_count; i++) {
    const uint32_t ppe = (after + i) % ppe_count;
    if (dispatch.load(ppe) == threads_each) continue;
    if (!best || dispatch.load(ppe) < dispatch.load(*best)) best = ppe;
  }
  return best;
}

TEST(AvailabilityDispatch, RandomUseMatchesTheRule) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (const uint32_t ppe_count : {1U, 2U, 63U, 64U, 65U, 160U}) {
    const uint32_t threads_each = 1 + prng.below(ppe_count == 2 ? 64 : 6);
    AvailabilityDispatch dispatch({.ppe_count = ppe_count, .threads_each = threads_each});
    std::vector<PpeThread> busy;
    uint32_t after = 0;
    for (uint32_t step = 0; step < 5'000; step++) {
      // Alternate busy and quiet phases, to reach both full and idle engines.
      if (prng.chance(step / 500 % 2 == 0 ? 0.7 : 0.3)) {
        const auto ppe = expected_ppe(dispatch, ppe_count, threads_each, after);
        const auto started = dispatch.start();
        ASSERT_EQ(started.has_value(), ppe.has_value()) << "step " << step;
        if (!started) continue;
        ASSERT_EQ(started->ppe, *ppe) << "step " << step;
        ASSERT_EQ(std::ranges::count(busy, *started), 0) << "step " << step;
        after = (*ppe + 1) % ppe_count;
        busy.push_back(*started);
      } else if (!busy.empty()) {
        const uint32_t pick = prng.below(static_cast<uint32_t>(busy.size()));
        dispatch.finish(busy[pick]);
        busy.erase(busy.begin() + pick);
      }
      ASSERT_EQ(dispatch.busy_count(), busy.size());
    }
  }
}

// --- Flows ---------------------------------------------------------------------------------------

using microcode::PacketHead;
using wire::Ipv4Header;
using wire::UdpHeader;

TEST(FlowDispatch, FieldOfAHeaderKnowsItsBits) {
  EXPECT_EQ((flow_field<Ipv4Header::SourceAddress>(14)), (FlowField{(14 + 12) * 8, 32}));
  EXPECT_EQ((flow_field<Ipv4Header::HeaderWords>(0)), (FlowField{4, 4}));
  EXPECT_EQ((flow_field<Ipv4Header::FragmentOffset>(0)), (FlowField{51, 13}));
  EXPECT_EQ((flow_field<UdpHeader::DestinationPort>(34)), (FlowField{36 * 8, 16}));
}

constexpr std::array<FlowField, 2> kPorts{flow_field<UdpHeader::SourcePort>(0),
                                          flow_field<UdpHeader::DestinationPort>(0)};

std::array<std::byte, 8> udp(uint32_t source_port, uint32_t destination_port, uint32_t checksum) {
  std::array<std::byte, 8> bytes{};
  wire::MutableView<UdpHeader> view(bytes.data());
  view.set<UdpHeader::SourcePort>(source_port);
  view.set<UdpHeader::DestinationPort>(destination_port);
  view.set<UdpHeader::Checksum>(checksum);
  return bytes;
}

TEST(FlowDispatch, OnlyTheChosenFieldsMakeAFlow) {
  const FlowDispatch dispatch(kPorts, 4);
  const auto a = udp(1, 2, 77);
  const auto same_flow = udp(1, 2, 88);
  const auto other = udp(2, 1, 77);
  EXPECT_EQ(dispatch.flow_of(PacketHead(a)), dispatch.flow_of(PacketHead(same_flow)));
  EXPECT_NE(dispatch.flow_of(PacketHead(a)), dispatch.flow_of(PacketHead(other)));
}

TEST(FlowDispatch, FlowIsTheHashOfItsFields) {
  const auto bytes = udp(12345, 12000, 0);
  const FlowDispatch dispatch(kPorts, 4, /*seed=*/9);
  EXPECT_EQ(dispatch.flow_of(PacketHead(bytes)),
            microcode::FieldHash(9).include(12345).include(12000).value());
}

TEST(FlowDispatch, FieldsAtOddBitsAreLoadedRight) {
  const std::array<std::byte, 6> bytes{std::byte{0x12}, std::byte{0x34}, std::byte{0x56},
                                       std::byte{0x78}, std::byte{0x9a}, std::byte{0xbc}};
  const std::array<FlowField, 3> fields{{{4, 32}, {47, 1}, {3, 2}}};
  // 0x23456789; the last bit of 0xbc; 0001 0010 bits 3 and 4: 1, 0.
  EXPECT_EQ(FlowDispatch(fields, 1).flow_of(PacketHead(bytes)),
            microcode::FieldHash().include(0x23456789).include(0).include(2).value());
}

TEST(FlowDispatch, FieldPastTheHeadIsLeftOut) {
  const auto bytes = udp(1, 2, 0);
  const FlowDispatch dispatch(kPorts, 4);
  const PacketHead cut{std::span(bytes).first(3)};  // The second port has only one byte.
  EXPECT_EQ(dispatch.flow_of(cut), microcode::FieldHash().include(1).value());
  EXPECT_EQ(dispatch.flow_of(PacketHead({})), microcode::FieldHash().value());
}

TEST(FlowDispatch, FlowsSpreadOverAllGroups) {
  for (const uint32_t group_count : {1U, 2U, 7U, 64U}) {
    const FlowDispatch dispatch(kPorts, group_count);
    std::vector<uint32_t> packets(group_count);
    for (uint32_t port = 0; port < 6400; port++) {
      const auto bytes = udp(port, 12000, 0);
      const uint32_t group = dispatch.group_of(dispatch.flow_of(PacketHead(bytes)));
      ASSERT_LT(group, group_count);
      packets[group]++;
    }
    for (const uint32_t count : packets) EXPECT_NEAR(count, 6400 / group_count, 600);
    EXPECT_GT(*std::ranges::min_element(packets), 0U);
  }
}

}  // namespace
}  // namespace tributary::engine
