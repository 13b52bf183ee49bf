// SPDX-License-Identifier: Apache-2.0
// Method: inline ports on rings in memory, with DPDK sides at the rings' other ends, so the test
// needs no card, privilege or hugepage. Frames are compared byte by byte. Then each frame that must
// not pass, several cores, a wire whose other end is a tunnel, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/internet_checksum.h"
#include "base/prng.h"
#include "io/dpdk/open_dpdk_port.h"
#include "io/dpdk/open_dpdk_sides.h"
#include "io/dpdk/ring_pair.h"
#include "io/inline/inline_port.h"
#include "tests/io/frames/bytes.h"
#include "tests/support/seed.h"
#include "tests/support/udp_peer.h"

namespace tributary::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Frames = std::vector<Bytes>;

/// Largest frame of a ring: an MTU of 9000, an Ethernet header and two VLAN tags.
constexpr uint32_t kFrameBytesMax = 9'000 + 14 + 8;

/// An inline port, and sides at the other ends of its rings.
class DpdkSides : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_dpdk()) GTEST_SKIP() << "built without DPDK";
  }

  static std::array<DpdkDeviceSpec, 2> rings(uint32_t queues = 1) {
    static uint32_t number = 0;
    auto pair = make_ring_pair("s" + std::to_string(number++), queues);
    EXPECT_TRUE(pair) << pair.error().text;
    return pair.value_or(std::array<DpdkDeviceSpec, 2>());
  }
  static std::string refusal_of(const std::vector<InlineSideSpec>& sides, uint32_t cores = 1,
                                Steering steering = Steering::kByFlow) {
    const auto opened = InlinePort::open({.sides = sides, .steering = steering}, cores);
    return opened ? std::string("opened") : opened.error().text;
  }
  static InlineSideSpec side_of(const DpdkDeviceSpec& device) { return {device.text, device}; }
  static InlineSideSpec side_of(const std::string& text) {
    auto side = parse_inline_side(text);
    EXPECT_TRUE(side) << side.error().text;
    return side.value_or(InlineSideSpec());
  }

  void open_port(const std::vector<InlineSideSpec>& sides, uint32_t cores = 1) {
    auto opened = InlinePort::open({.sides = sides}, cores);
    ASSERT_TRUE(opened) << opened.error().text;
    ports_ = std::move(opened->ports);
  }
  void open_ends(const std::vector<DpdkDeviceSpec>& devices) {
    auto opened = open_dpdk_sides({.devices = devices});
    ASSERT_TRUE(opened) << opened.error().text;
    ends_ = std::move(opened->sides.front());
  }
  /// Opens a wire of `count` rings. @param mtu Of the port's devices; 0 for 9000.
  void open_wire(uint32_t count, uint32_t mtu = 0) {
    std::vector<DpdkDeviceSpec> ends;
    std::vector<InlineSideSpec> sides;
    for (uint32_t i = 0; i < count; i++) {
      auto [end, ours] = rings();
      ours.mtu = mtu;
      ends.push_back(end);
      sides.push_back(side_of(ours));
    }
    open_ends(ends);
    open_port(sides);
  }

  engine::PortQueue& port(uint32_t core = 0) { return ports_[core]->queue(0); }
  InlineSide& end(uint32_t index) { return *ends_[index]; }

  static uint32_t send(InlineSide& side, const Frames& frames) {
    std::vector<InlineSide::Outgoing> outgoing;
    for (const Bytes& frame : frames) outgoing.push_back({.bytes = frame, .notes = {}});
    return side.send(outgoing).frames;
  }
  static Frames receive(InlineSide& side) {
    Frames frames;
    while (const uint32_t got = side.receive(InlineSide::kFramesEach)) {
      for (uint32_t i = 0; i < got; i++) {
        frames.emplace_back(side.frame(i).begin(), side.frame(i).end());
      }
    }
    return frames;
  }
  /// Forwards all frames that have arrived. @return their number.
  uint32_t forward(uint32_t core = 0) {
    std::array<engine::Packet, engine::kBurstPackets> burst;
    const uint32_t got = port(core).receive(burst);
    std::vector<engine::TxPacket> packets;
    for (uint32_t i = 0; i < got; i++) {
      packets.push_back({.data = burst[i].data,
                         .size = burst[i].size,
                         .destination = burst[i].source,
                         .layer = engine::PacketLayer::kFrame});
    }
    port(core).transmit(packets);
    return got;
  }
  uint64_t counted(const std::string& name) {
    std::map<std::string, uint64_t> counters;
    port().visit_counters([&](const char* of, uint64_t value) { counters[of] = value; });
    EXPECT_TRUE(counters.contains(name)) << name;
    return counters[name];
  }

  std::vector<std::unique_ptr<InlinePort>> ports_;
  std::vector<std::unique_ptr<InlineSide>> ends_;
};

TEST(DpdkSidesAbsent, ABuildWithoutDpdkSaysSo) {
  if (has_dpdk()) GTEST_SKIP() << "built with DPDK";
  const auto opened = InlinePort::open({.sides = {*parse_inline_side("dpdk:null")}}, 1);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text,
              AllOf(HasSubstr("--port: this program was built without DPDK; to fix: "),
                    HasSubstr("install-deps.sh --with-dpdk")));
}

TEST_F(DpdkSides, FramesCrossTheWireBothWays) {
  ASSERT_NO_FATAL_FAILURE(open_wire(2));
  const Frames there{numbered(1, 14), numbered(2, 60), numbered(3, 1'514),
                     numbered(4, kFrameBytesMax)};
  const Frames back{numbered(5, 100)};
  EXPECT_EQ(send(end(0), there), 4U);
  EXPECT_EQ(send(end(1), back), 1U);
  EXPECT_EQ(forward(), 5U);
  EXPECT_EQ(receive(end(1)), there);
  EXPECT_EQ(receive(end(0)), back);
  const engine::PortCounters counters = port().counters();
  EXPECT_EQ(counters.rx_packets, 5U);
  EXPECT_EQ(counters.tx_packets, 5U);
  EXPECT_EQ(counters.rx_bytes, 14U + 60 + 1'514 + kFrameBytesMax + 100);
  EXPECT_EQ(counters.tx_bytes, counters.rx_bytes);
  EXPECT_EQ(counters.tx_refused + counters.system_calls, 0U);
}

TEST_F(DpdkSides, OneSideSendsFramesBack) {
  ASSERT_NO_FATAL_FAILURE(open_wire(1));
  const Frames frames{numbered(1, 60), numbered(2, 61)};
  EXPECT_EQ(send(end(0), frames), 2U);
  EXPECT_EQ(forward(), 2U);
  EXPECT_EQ(receive(end(0)), frames);
}

TEST_F(DpdkSides, RuntsAndGiantsAreDroppedAndCounted) {
  ASSERT_NO_FATAL_FAILURE(open_wire(1, /*mtu=*/1'500));
  const Bytes largest = numbered(1, 1'522);  // Two VLAN tags.
  EXPECT_EQ(send(end(0), {numbered(2, 13), numbered(3, 1'523), numbered(4, 9'000), largest}), 4U);
  EXPECT_EQ(forward(), 1U);
  EXPECT_EQ(receive(end(0)), Frames{largest});
  EXPECT_EQ(counted("runt"), 1U);
  EXPECT_EQ(counted("giant"), 2U);
  EXPECT_EQ(counted("no_buffer"), 0U);
  EXPECT_EQ(counted("device_missed"), 0U);
}

TEST_F(DpdkSides, AFullDeviceLosesAndCountsFrames) {
  ASSERT_NO_FATAL_FAILURE(open_wire(1));
  // Nobody empties the ring back, which has room for kRingFrames - 1.
  for (uint32_t i = 0; i < 40; i++) {
    EXPECT_EQ(send(end(0), Frames(InlineSide::kFramesEach, numbered(i, 60))), 64U);
    EXPECT_EQ(forward(), 64U);
  }
  EXPECT_EQ(port().counters().tx_packets, kRingFrames - 1);
  EXPECT_EQ(port().counters().tx_refused, 40 * 64 - (kRingFrames - 1));
  EXPECT_EQ(receive(end(0)).size(), kRingFrames - 1);
}

TEST_F(DpdkSides, BuffersReturnToThePools) {
  ASSERT_NO_FATAL_FAILURE(open_wire(2));
  // Far more frames than buffers, so a leak would show.
  const Frames frames(InlineSide::kFramesEach, numbered(7, 60));
  for (uint32_t i = 0; i < 500; i++) {
    ASSERT_EQ(send(end(0), frames), 64U) << i;
    ASSERT_EQ(forward(), 64U) << i;
    ASSERT_EQ(receive(end(1)).size(), 64U) << i;
  }
}

TEST_F(DpdkSides, CompletesChecksumsAndRefusesTrainsAndGiants) {
  ASSERT_NO_FATAL_FAILURE(open_wire(1));
  Bytes frame(60, std::byte{3});
  frame[40] = std::byte{0x12};  // The sum of a pseudo-header, at 34 + 6.
  frame[41] = std::byte{0x34};
  const FrameNotes open{
      .flags = FrameNotes::kNeedsChecksum, .checksum_start = 34, .checksum_offset = 6};
  FrameNotes outside = open;
  outside.checksum_offset = 25;  // 34 + 25 + 2 > 60.
  const Bytes giant(kFrameBytesMax + 1);
  const std::array<InlineSide::Outgoing, 5> outgoing{{{.bytes = frame, .notes = {.gso_type = 1}},
                                                      {.bytes = frame, .notes = outside},
                                                      {.bytes = giant, .notes = {}},
                                                      {.bytes = frame, .notes = open},
                                                      {.bytes = frame, .notes = {}}}};
  EXPECT_EQ(end(0).send(outgoing).frames, 2U);
  EXPECT_EQ(forward(), 2U);
  const Frames got = receive(end(0));
  ASSERT_EQ(got.size(), 2U);
  // With its checksum, and the pseudo-header's sum in addition, the segment sums to 0xffff.
  const auto segment = std::span(got[0]).subspan(34);
  EXPECT_EQ(fold_sum(uint64_t{word_sum(segment)} + 0x1234), 0xffff);
  EXPECT_EQ(got[1], frame);
}

TEST_F(DpdkSides, AWireMayEndInATunnel) {
  const testing::UdpPeer peer;
  auto [end_device, ours] = rings();
  ASSERT_NO_FATAL_FAILURE(open_ends({end_device}));
  const VxlanConfig tunnel{.local = Endpoint::ipv4(INADDR_LOOPBACK, 0), .peer = peer.at()};
  ASSERT_NO_FATAL_FAILURE(open_port({side_of(ours), {"a tunnel", tunnel}}));
  const Bytes frame = numbered(1, 100);
  EXPECT_EQ(send(end(0), {frame}), 1U);
  EXPECT_EQ(forward(), 1U);
  const auto datagram = peer.receive();
  ASSERT_TRUE(datagram);
  EXPECT_EQ(Bytes(datagram->begin() + wire::VxlanHeader::kBytes, datagram->end()), frame);
}

TEST_F(DpdkSides, WaitPollsAtMostAMillisecondApart) {
  ASSERT_NO_FATAL_FAILURE(open_wire(1));
  port().wait(seconds(3'600));  // Nothing arrives and nobody wakes it.
  port().wake();
  port().wait(seconds(3'600));
  EXPECT_EQ(forward(), 0U);
}

TEST_F(DpdkSides, CoresHaveQueuesOfTheirOwn) {
  // net_null has a hash like a card's, and each of its queues delivers frames without end.
  ASSERT_NO_FATAL_FAILURE(open_port(
      {side_of("dpdk:null,size=200,hugepages=off"), side_of("dpdk:null,hugepages=off")}, 2));
  ASSERT_EQ(ports_.size(), 2U);
  for (uint32_t core = 0; core < 2; core++) {
    EXPECT_EQ(forward(core), 128U) << core;
    EXPECT_EQ(port(core).counters().tx_packets, 128U) << core;
    EXPECT_EQ(port(core).counters().rx_bytes, 64U * (200 + 64)) << core;
  }
}

TEST_F(DpdkSides, SeveralCoresNeedACardThatShares) {
  const std::string null = "dpdk:null,hugepages=off";
  EXPECT_THAT(refusal_of({side_of(rings(2)[0])}, 2),
              AllOf(HasSubstr("cannot share its frames among 2 cores by flow"),
                    HasSubstr("to fix: --cores 1")));
  EXPECT_THAT(refusal_of({side_of(null)}, 2, Steering::kByDestination),
              HasSubstr("cannot share its frames among 2 cores by IP destination"));
  EXPECT_THAT(refusal_of({side_of("packet:lo"), side_of(null)}, 2),
              AllOf(HasSubstr("--port 'dpdk:null"), HasSubstr("different hashes"),
                    HasSubstr("--cores is 2; allowed: --cores 1")));
  EXPECT_EQ(refusal_of({side_of(null)}, 1, Steering::kByDestination), "opened");
}

TEST_F(DpdkSides, RefusalsNameCauseAndRemedy) {
  const std::string off = ",hugepages=off";
  EXPECT_THAT(refusal_of({side_of("dpdk:ff:1f.7" + off)}),
              AllOf(HasSubstr("--port: 0000:ff:1f.7: there is no PCI device 0000:ff:1f.7"),
                    HasSubstr("dpdk-devbind.py")));
  EXPECT_THAT(refusal_of({side_of("dpdk:null,nonsense=1" + off)}),
              HasSubstr("the driver refuses 'dpdk:null,nonsense=1"));
  EXPECT_THAT(refusal_of({side_of("dpdk:null3" + off), side_of("dpdk:null3" + off)}),
              HasSubstr("the device net_null3 is named twice"));
}

TEST_F(DpdkSides, RandomFramesArriveIntactAndInOrder) {
  ASSERT_NO_FATAL_FAILURE(open_wire(2));
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 300; step++) {
    std::array<Frames, 2> sent;
    for (uint32_t from = 0; from < 2; from++) {
      sent[from].resize(prng.below(40));
      for (Bytes& frame : sent[from]) {
        frame.resize(14 + prng.below(kFrameBytesMax - 14 + 1));
        for (size_t i = 0; i < frame.size(); i += 97)
          frame[i] = static_cast<std::byte>(prng.any_u32());
      }
      ASSERT_EQ(send(end(from), sent[from]), sent[from].size());
    }
    ASSERT_EQ(forward(), sent[0].size() + sent[1].size()) << step;
    ASSERT_EQ(receive(end(1)), sent[0]) << step;
    ASSERT_EQ(receive(end(0)), sent[1]) << step;
  }
}

}  // namespace
}  // namespace tributary::io
