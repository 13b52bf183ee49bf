// SPDX-License-Identifier: Apache-2.0
// Method: good frames first, then one fault at a time with its outcome. frame_link_test.cc checks
// with random bytes that a bad frame is counted and has no other effect.
#include "io/frames/link_inspect.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

#include "io/frames/link_headers.h"
#include "tests/io/frames/link_bed.h"

namespace tributary::io {
namespace {

const Bytes kPayload = from_hex("01 02 03");

InspectedFrame inspect(const Bytes& frame, const LinkIdentity& host = kHost,
                       VerifiedByHardware verified = {}) {
  return inspect_frame(frame, host, verified);
}

/// Changes a good datagram, optionally repairs its IPv4 header checksum, and returns the refusal.
FrameOutcome refusal_of(const std::function<void(Bytes&)>& change, bool repair = true) {
  Bytes frame = datagram(kTheirs, kOurs, kPayload);
  change(frame);
  if (repair && frame.size() >= 34) {
    store_be<uint16_t>(frame.data() + 24, uint16_t{0});
    store_be<uint16_t>(frame.data() + 24, internet_checksum({frame.data() + 14, 20}));
  }
  const InspectedFrame found = inspect(frame);
  EXPECT_EQ(found.kind, FrameKind::kRefused);
  return found.refusal;
}

TEST(LinkInspect, AcceptsOurDatagramWithAndWithoutPadding) {
  for (const bool padded : {false, true}) {
    Bytes frame = datagram(kTheirs, kOurs, kPayload);
    if (padded) frame.resize(60);  // Ethernet's minimum; the IP length decides.
    const InspectedFrame found = inspect(frame);
    ASSERT_EQ(found.kind, FrameKind::kUdp) << to_string(found.refusal);
    EXPECT_EQ(found.offset, 42U);
    EXPECT_EQ(found.size, 3U);
    EXPECT_EQ(found.source, kTheirs);
    EXPECT_EQ(found.destination, kOurs);
  }
  const InspectedFrame six = inspect(datagram(kTheirs6, kOurs6, kPayload), kHost6);
  ASSERT_EQ(six.kind, FrameKind::kUdp) << to_string(six.refusal);
  EXPECT_EQ(six.offset, 62U);
  EXPECT_EQ(six.source, kTheirs6);
}

TEST(LinkInspect, RefusesDamagedChecksums) {
  const auto flip = [](size_t at) { return [at](Bytes& frame) { frame[at] ^= std::byte{1}; }; };
  EXPECT_EQ(refusal_of(flip(24), /*repair=*/false), FrameOutcome::kBadIpChecksum);
  EXPECT_EQ(refusal_of(flip(44)), FrameOutcome::kBadUdpChecksum);  // The last payload byte.
  EXPECT_EQ(refusal_of(flip(34)), FrameOutcome::kBadUdpChecksum);  // The source port.
}

TEST(LinkInspect, SkipsChecksumsThatTheCardVerified) {
  Bytes frame = datagram(kTheirs, kOurs, kPayload);
  frame[24] ^= std::byte{1};
  frame[44] ^= std::byte{1};
  EXPECT_EQ(inspect(frame, kHost, {.ip_checksum = true, .udp_checksum = true}).kind,
            FrameKind::kUdp);
  EXPECT_EQ(inspect(frame, kHost, {.ip_checksum = true}).refusal, FrameOutcome::kBadUdpChecksum);
  EXPECT_EQ(inspect(frame, kHost, {.udp_checksum = true}).refusal, FrameOutcome::kBadIpChecksum);
}

TEST(LinkInspect, TrustsUdpChecksumsOnAVirtualWire) {
  Bytes frame = datagram(kTheirs, kOurs, kPayload);
  frame[40] ^= std::byte{1};  // The UDP checksum, which veth leaves incomplete.
  EXPECT_EQ(inspect(frame).refusal, FrameOutcome::kBadUdpChecksum);
  LinkIdentity veth = kHost;
  veth.trusts_udp_checksum = true;
  EXPECT_EQ(inspect(frame, veth).kind, FrameKind::kUdp);
}

TEST(LinkInspect, UdpChecksumZeroIsAllowedOverIpv4Only) {
  Bytes four = datagram(kTheirs, kOurs, kPayload);
  four[40] = four[41] = std::byte{0};
  EXPECT_EQ(inspect(four).kind, FrameKind::kUdp);
  Bytes six = datagram(kTheirs6, kOurs6, kPayload);
  six[60] = six[61] = std::byte{0};
  EXPECT_EQ(inspect(six, kHost6).refusal, FrameOutcome::kBadUdpChecksum);
}

TEST(LinkInspect, RefusesVlanNonIpAndRuntFrames) {
  const auto type = [](uint16_t value) {
    return [value](Bytes& frame) { store_be<uint16_t>(frame.data() + 12, value); };
  };
  EXPECT_EQ(refusal_of(type(0x8100)), FrameOutcome::kVlan);
  EXPECT_EQ(refusal_of(type(0x88a8)), FrameOutcome::kVlan);
  EXPECT_EQ(refusal_of(type(0x88cc)), FrameOutcome::kNotIp);  // LLDP.
  EXPECT_EQ(refusal_of([](Bytes& frame) { frame.resize(13); }), FrameOutcome::kRunt);
  EXPECT_EQ(refusal_of([](Bytes& frame) { frame.resize(33); }), FrameOutcome::kRunt);
  EXPECT_EQ(refusal_of([](Bytes& frame) { frame[5] = std::byte{9}; }), FrameOutcome::kNotOurs);
  EXPECT_EQ(refusal_of([](Bytes& frame) { frame[33] = std::byte{9}; }), FrameOutcome::kNotOurs);
}

TEST(LinkInspect, RefusesInconsistentIpHeaders) {
  const auto byte = [](size_t at, uint8_t value) {
    return [=](Bytes& frame) { frame[at] = std::byte{value}; };
  };
  EXPECT_EQ(refusal_of(byte(14, 0x55)), FrameOutcome::kBadIpHeader);  // Version 5.
  EXPECT_EQ(refusal_of(byte(14, 0x44)), FrameOutcome::kBadIpHeader);  // Four words.
  EXPECT_EQ(refusal_of(byte(17, 200)), FrameOutcome::kBadIpHeader);   // Beyond the frame.
  EXPECT_EQ(refusal_of(byte(17, 19)), FrameOutcome::kBadIpHeader);    // Below the header.
  EXPECT_EQ(refusal_of(byte(20, 0x20)), FrameOutcome::kFragment);     // More fragments.
  EXPECT_EQ(refusal_of(byte(21, 1)), FrameOutcome::kFragment);        // Offset 8.
  EXPECT_EQ(refusal_of(byte(23, 6)), FrameOutcome::kNotUdp);          // TCP.
}

TEST(LinkInspect, RefusesImpossibleSourceAddresses) {
  const auto source = [](uint32_t address) {
    return [address](Bytes& frame) { store_be<uint32_t>(frame.data() + 26, address); };
  };
  EXPECT_EQ(refusal_of(source(0xe0000005)), FrameOutcome::kBadSource);  // A group.
  EXPECT_EQ(refusal_of(source(0)), FrameOutcome::kBadSource);
  EXPECT_EQ(refusal_of(source(0x0a000001)), FrameOutcome::kBadSource);  // Ourselves.
}

TEST(LinkInspect, ChecksUdpLengthAndPort) {
  const auto word = [](size_t at, uint16_t value) {
    return [=](Bytes& frame) {
      store_be<uint16_t>(frame.data() + at, value);
      // No checksum, so that only the changed word can be wrong.
      store_be<uint16_t>(frame.data() + 40, uint16_t{0});
    };
  };
  EXPECT_EQ(refusal_of(word(38, 12)), FrameOutcome::kBadUdpLength);
  EXPECT_EQ(refusal_of(word(38, 7)), FrameOutcome::kBadUdpLength);
  EXPECT_EQ(refusal_of(word(36, 12001)), FrameOutcome::kWrongPort);
  EXPECT_EQ(refusal_of(word(34, 0)), FrameOutcome::kWrongPort);  // Port 0 cannot be answered.
}

TEST(LinkInspect, AcceptsAllOurUdpPorts) {
  LinkIdentity four = kHost;
  four.udp_ports = 4;
  for (const uint16_t port : {uint16_t{12000}, uint16_t{12003}}) {
    Endpoint ours = kOurs;
    ours.port = port;
    EXPECT_EQ(inspect(datagram(kTheirs, ours, kPayload), four).kind, FrameKind::kUdp);
  }
  for (const uint16_t port : {uint16_t{11999}, uint16_t{12004}}) {
    Endpoint ours = kOurs;
    ours.port = port;
    EXPECT_EQ(inspect(datagram(kTheirs, ours, kPayload), four).refusal, FrameOutcome::kWrongPort);
  }
}

TEST(LinkInspect, RefusesIpOptionsBeforeUdp) {
  Bytes frame = datagram(kTheirs, kOurs, kPayload);
  frame.insert(frame.begin() + 34, 4, std::byte{1});  // Four times "no operation".
  frame[14] = std::byte{0x46};
  frame[17] = static_cast<std::byte>(std::to_integer<uint8_t>(frame[17]) + 4);
  frame[24] = frame[25] = std::byte{0};
  store_be<uint16_t>(frame.data() + 24, internet_checksum({frame.data() + 14, 24}));
  EXPECT_EQ(inspect(frame).refusal, FrameOutcome::kIpOptions);
}

TEST(LinkInspect, AcceptsJoinedGroupsOnly) {
  const Endpoint group = Endpoint::ipv4(0xef010203, 7000);
  const Bytes frame = datagram(kTheirs, group, kPayload);
  EXPECT_EQ(inspect(frame).refusal, FrameOutcome::kNotOurs);
  LinkIdentity member = kHost;
  member.groups = {&group, 1};
  EXPECT_EQ(inspect(frame, member).kind, FrameKind::kUdp);
  Endpoint other = group;
  other.port = 7001;
  EXPECT_EQ(inspect(datagram(kTheirs, other, kPayload), member).refusal, FrameOutcome::kWrongPort);
}

TEST(LinkInspect, RecognisesControlMessages) {
  EXPECT_EQ(inspect(from_hex(kArpRequest)).kind, FrameKind::kArp);
  EXPECT_EQ(inspect(from_hex(kPing)).kind, FrameKind::kIcmp);
  EXPECT_EQ(inspect(from_hex(kIgmpQueryFrame)).kind, FrameKind::kIgmp);
  EXPECT_EQ(inspect(from_hex(kSolicitation), kHost6).kind, FrameKind::kIcmpv6);
  // Sent to a host with an IPv4 address, the same frame asks for the link-local address
  // fe80::ff:fe00:1, which has the same group. The host does not have that address.
  EXPECT_EQ(inspect(from_hex(kSolicitation), kHost).refusal, FrameOutcome::kNotOurs);
  Bytes ping = from_hex(kPing);
  ping.back() ^= std::byte{1};
  EXPECT_EQ(inspect(ping).refusal, FrameOutcome::kBadControl);
  Bytes arp = from_hex(kArpRequest);
  arp[19] = std::byte{16};  // The length of its addresses.
  EXPECT_EQ(inspect(arp).refusal, FrameOutcome::kBadArp);
  arp.resize(41);
  EXPECT_EQ(inspect(arp).refusal, FrameOutcome::kRunt);
}

TEST(LinkInspect, DerivesLinkLocalAndMulticastAddresses) {
  EXPECT_EQ(link_local_address(kOurMac), *Endpoint::parse("[fe80::ff:fe00:1]:1").map([](auto e) {
    e.port = 0;
    return e;
  }));
  EXPECT_TRUE(same_address(solicited_node_group(*Endpoint::parse("[fd00::12:3456]:1")),
                           *Endpoint::parse("[ff02::1:ff12:3456]:1")));
  EXPECT_EQ(multicast_mac(Endpoint::ipv4(0xef810203, 1)), (MacAddress{1, 0, 0x5e, 1, 2, 3}));
  EXPECT_EQ(multicast_mac(*Endpoint::parse("[ff02::1:ff12:3456]:1")),
            (MacAddress{0x33, 0x33, 0xff, 0x12, 0x34, 0x56}));
}

TEST(LinkInspect, RefusesIpv4AddressesInIpv6Headers) {
  constexpr VerifiedByHardware kAll{.ip_checksum = true, .udp_checksum = true};
  const Bytes good = datagram(kTheirs6, kOurs6, kPayload);
  ASSERT_EQ(inspect(good, kHost6, kAll).kind, FrameKind::kUdp);
  Bytes from = good;
  std::memcpy(from.data() + 22, kTheirs.address.data(), kTheirs.address.size());
  EXPECT_EQ(inspect(from, kHost6, kAll).refusal, FrameOutcome::kBadSource);
  Bytes to = good;
  std::memcpy(to.data() + 38, kOurs.address.data(), kOurs.address.size());
  EXPECT_EQ(inspect(to, kHost, kAll).refusal, FrameOutcome::kNotOurs);
}

TEST(LinkInspect, OutcomeNamesAreUnique) {
  std::set<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(FrameOutcome::kCount); i++) {
    names.insert(to_string(static_cast<FrameOutcome>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(FrameOutcome::kCount));
  EXPECT_EQ(names.count(""), 0U);
}

}  // namespace
}  // namespace tributary::io
