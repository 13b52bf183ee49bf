// SPDX-License-Identifier: Apache-2.0
// Method: packets made by hand, and the Ethernet frames that they become.
#include "io/capture/link_layer.h"

#include <gtest/gtest.h>
#include <pcap/dlt.h>

namespace tributary::io {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Bytes frame_of(int link_type, const Bytes& packet, uint32_t wire_bytes, uint32_t frame_wire_bytes) {
  auto layer = LinkLayer::of(link_type);
  EXPECT_TRUE(layer);
  const LinkLayer::Frame frame = layer->to_ethernet(packet, wire_bytes);
  EXPECT_EQ(frame.wire_bytes, frame_wire_bytes);
  return {frame.bytes.begin(), frame.bytes.end()};
}

// An incoming packet of an Ethernet interface, cut to two bytes of IPv4.
TEST(LinkLayer, CookedKeepsSourceAndEtherType) {
  const Bytes packet = bytes_of({0, 0, 0, 1, 0, 6, 2, 3, 4, 5, 6, 7, 0, 0, 0x08, 0x00, 0x45, 0x00});
  const Bytes frame = bytes_of({0, 0, 0, 0, 0, 0, 2, 3, 4, 5, 6, 7, 0x08, 0x00, 0x45, 0x00});
  EXPECT_EQ(frame_of(DLT_LINUX_SLL, packet, 100, 98), frame);
}

// With an IPv6 packet on a tunnel, whose address has four bytes.
TEST(LinkLayer, Cooked2KeepsSourceAndEtherType) {
  const Bytes packet = bytes_of(
      {0x86, 0xdd, 0, 0, 0, 0, 0, 3, 3, 0, 0, 4, 10, 0, 0, 1, 9, 9, 9, 9, 0x60, 0x00, 0x01});
  const Bytes frame = bytes_of({0, 0, 0, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0x86, 0xdd, 0x60, 0x00, 0x01});
  EXPECT_EQ(frame_of(DLT_LINUX_SLL2, packet, 23, 17), frame);
}

TEST(LinkLayer, PlainIpGetsTheEtherTypeOfItsVersion) {
  for (const int type : {DLT_RAW, DLT_IPV4, DLT_IPV6}) {
    const Bytes four = frame_of(type, bytes_of({0x45, 1}), 2, 16);
    EXPECT_EQ(four, bytes_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00, 0x45, 1}));
    const Bytes six = frame_of(type, bytes_of({0x60}), 1, 15);
    EXPECT_EQ(six, bytes_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x86, 0xdd, 0x60}));
    const Bytes none = frame_of(type, {}, 0, 14);
    EXPECT_EQ(none, bytes_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}));
  }
}

TEST(LinkLayer, EthernetStays) {
  const Bytes packet = bytes_of({1, 2, 3});
  EXPECT_EQ(frame_of(DLT_EN10MB, packet, 60, 60), packet);
}

// An address size above the field's eight bytes counts as eight; six fit into a frame.
TEST(LinkLayer, HostileHeadersAreBounded) {
  Bytes cooked(16, std::byte{0xff});
  EXPECT_EQ(frame_of(DLT_LINUX_SLL, cooked, 16, 14).size(), 14U);
  Bytes cooked2(20, std::byte{0xff});
  EXPECT_EQ(frame_of(DLT_LINUX_SLL2, cooked2, 20, 14).size(), 14U);
  cooked.pop_back();
  EXPECT_TRUE(frame_of(DLT_LINUX_SLL, cooked, 15, 14).empty());
  EXPECT_TRUE(frame_of(DLT_LINUX_SLL2, {}, 0, 14).empty());
  EXPECT_EQ(frame_of(DLT_RAW, bytes_of({0x45}), UINT32_MAX, UINT32_MAX).size(), 15U);
}

TEST(LinkLayer, OthersAreRefused) {
  EXPECT_FALSE(LinkLayer::of(DLT_IEEE802_11));
  EXPECT_NE(readable_link_types().find("LINUX_SLL2"), std::string::npos);
}

}  // namespace
}  // namespace tributary::io
