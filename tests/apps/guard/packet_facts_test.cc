// SPDX-License-Identifier: Apache-2.0
// Method: one frame of each kind by hand, then each defect, then random bytes and random cuts of
// right frames, which must never be read past their end (the address sanitizer watches).
#include "apps/guard/packet_facts.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/live/live_machine.h"
#include "tests/apps/guard/bed.h"
#include "tests/support/seed.h"

namespace tributary::guard {
namespace {

using apps::FlowFit;
using Bytes = std::vector<std::byte>;

FlowFit read(Bytes bytes, PacketFacts& facts,
             engine::PacketLayer layer = engine::PacketLayer::kFrame) {
  ForgettingQueue queue;
  engine::LiveMachine m(queue);
  engine::Packet packet{.data = bytes.data(),
                        .size = static_cast<uint32_t>(bytes.size()),
                        .layer = layer,
                        .source = {}};
  m.begin_packet(packet);
  facts = {};
  return read_packet(m, facts);
}

Bytes bytes_of(const BuiltFrame& frame) { return {frame.span().begin(), frame.span().end()}; }

const char* const kIpv4Source = "192.0.2.1:1000";
const char* const kIpv4Destination = "198.18.0.1:443";

PacketKind kind_of(const Bytes& bytes) {
  PacketFacts facts;
  EXPECT_EQ(read(bytes, facts), FlowFit::kFits);
  return facts.kind;
}

TEST(PacketFacts, ReadsAddressesPortsAndKind) {
  PacketFacts facts;
  ASSERT_EQ(read(bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, wire::kTcpSyn)), facts),
            FlowFit::kFits);
  EXPECT_EQ(facts.source, Endpoint::parse(kIpv4Source)->address);
  EXPECT_EQ(facts.destination, Endpoint::parse(kIpv4Destination)->address);
  EXPECT_EQ(facts.source_port, 1000);
  EXPECT_EQ(facts.destination_port, 443);
  EXPECT_EQ(facts.kind, PacketKind::kTcpSyn);

  ASSERT_EQ(read(bytes_of(udp_frame("[2001:db8::1]:53", "[2001:db8::2]:54")), facts),
            FlowFit::kFits);
  EXPECT_EQ(facts.source, Endpoint::parse("[2001:db8::1]:1")->address);
  EXPECT_EQ(facts.destination, Endpoint::parse("[2001:db8::2]:1")->address);
  EXPECT_EQ(facts.destination_port, 54);
  EXPECT_EQ(facts.kind, PacketKind::kUdp);
}

TEST(PacketFacts, OnlySynWithoutAckOpensAConnection) {
  EXPECT_EQ(kind_of(bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, 0x02))), PacketKind::kTcpSyn);
  EXPECT_EQ(kind_of(bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, 0xc2))),
            PacketKind::kTcpSyn);  // With ECN (RFC 3168 §6.1.1).
  EXPECT_EQ(kind_of(bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, 0x12))), PacketKind::kTcp);
  EXPECT_EQ(kind_of(bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, 0x00))), PacketKind::kTcp);
}

TEST(PacketFacts, OtherProtocolsAndLaterFragments) {
  Bytes bytes = bytes_of(udp_frame(kIpv4Source, kIpv4Destination));
  bytes[14 + 9] = std::byte{1};
  EXPECT_EQ(kind_of(bytes), PacketKind::kIcmp);
  bytes[14 + 9] = std::byte{47};
  EXPECT_EQ(kind_of(bytes), PacketKind::kOther);
  bytes[14 + 9] = std::byte{17};
  bytes[14 + 7] = std::byte{1};  // Fragment offset 8 bytes.
  PacketFacts facts;
  ASSERT_EQ(read(bytes, facts), FlowFit::kFits);
  EXPECT_EQ(facts.kind, PacketKind::kOther);
  EXPECT_EQ(facts.destination_port, 0);
}

TEST(PacketFacts, ReadsBehindVlanTagsAndIpOptions) {
  Bytes bytes = bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, wire::kTcpSyn));
  const std::byte tag[] = {std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{7}};
  bytes.insert(bytes.begin() + 12, std::begin(tag), std::end(tag));
  EXPECT_EQ(kind_of(bytes), PacketKind::kTcpSyn);
  bytes.insert(bytes.begin() + 12, std::begin(tag), std::end(tag));
  EXPECT_EQ(kind_of(bytes), PacketKind::kTcpSyn);
  bytes.insert(bytes.begin() + 12, std::begin(tag), std::end(tag));
  PacketFacts facts;
  EXPECT_EQ(read(bytes, facts), FlowFit::kTooManyTags);

  bytes = bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, wire::kTcpSyn));
  bytes.insert(bytes.begin() + 34, 4, std::byte{1});  // Four no-operation options.
  bytes[14] = std::byte{0x46};
  bytes[17] = std::byte{44};
  EXPECT_EQ(kind_of(bytes), PacketKind::kTcpSyn);
}

/// Puts destination options of `units` times eight bytes before the UDP header.
Bytes with_options(uint32_t units) {
  Bytes bytes = bytes_of(udp_frame("[2001:db8::1]:53", "[2001:db8::2]:54"));
  bytes.insert(bytes.begin() + 54, units * 8, std::byte{0});
  bytes[54] = bytes[20];  // The header behind the options.
  bytes[55] = static_cast<std::byte>(units - 1);
  bytes[20] = static_cast<std::byte>(wire::kIpv6DestinationOptions);
  const size_t payload_bytes = bytes.size() - 54;
  bytes[18] = static_cast<std::byte>(payload_bytes >> 8);
  bytes[19] = static_cast<std::byte>(payload_bytes);
  return bytes;
}

TEST(PacketFacts, ReadsBehindIpv6ExtensionHeaders) {
  EXPECT_EQ(kind_of(with_options(1)), PacketKind::kUdp);
  EXPECT_EQ(kind_of(with_options(9)), PacketKind::kUdp);
}

// A sender cannot hide behind long headers: its addresses are judged.
TEST(PacketFacts, JudgesAddressesWhenTheHeadEndsBeforeThePorts) {
  PacketFacts facts;
  const Bytes bytes = with_options(30);
  ASSERT_EQ(read(bytes, facts), FlowFit::kFits);
  EXPECT_EQ(facts.kind, PacketKind::kOther);
  EXPECT_EQ(facts.source, Endpoint::parse("[2001:db8::1]:1")->address);
  EXPECT_EQ(facts.destination_port, 0);
}

TEST(PacketFacts, NamesEachDefect) {
  PacketFacts facts;
  const Bytes good = bytes_of(tcp_frame(kIpv4Source, kIpv4Destination, wire::kTcpSyn));
  EXPECT_EQ(read(good, facts, engine::PacketLayer::kUdpPayload), FlowFit::kNotFrame);
  EXPECT_EQ(read({}, facts), FlowFit::kTruncated);
  EXPECT_EQ(read(Bytes(good.begin(), good.begin() + 33), facts), FlowFit::kTruncated);
  EXPECT_EQ(read(Bytes(good.begin(), good.begin() + 53), facts), FlowFit::kTruncated);
  Bytes bad = good;
  bad[12] = std::byte{0x08};
  bad[13] = std::byte{0x06};
  EXPECT_EQ(read(bad, facts), FlowFit::kNotIp);
  bad = good;
  bad[14] = std::byte{0x44};  // Four words of header.
  EXPECT_EQ(read(bad, facts), FlowFit::kBadIpHeader);
  bad[14] = std::byte{0x65};
  EXPECT_EQ(read(bad, facts), FlowFit::kBadIpHeader);
  bad = good;
  bad[17] = std::byte{33};  // The segment ends before its flags.
  EXPECT_EQ(read(bad, facts), FlowFit::kTruncated);
}

TEST(PacketFacts, AnyBytesHaveAnAnswer) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (int i = 0; i < 20'000; i++) {
    Bytes bytes =
        bytes_of(prng.chance(0.5) ? tcp_frame(kIpv4Source, kIpv4Destination, prng.below(256))
                                  : udp_frame("[2001:db8::1]:53", "[2001:db8::2]:54"));
    bytes.resize(prng.below(static_cast<uint32_t>(bytes.size()) + 1));
    for (std::byte& byte : bytes) {
      if (prng.chance(0.02)) byte = static_cast<std::byte>(prng.any_u32());
    }
    PacketFacts facts;
    static_cast<void>(read(bytes, facts));
    ASSERT_LT(App::owner(bytes, true, 4), 4U);
  }
}

}  // namespace
}  // namespace tributary::guard
