// SPDX-License-Identifier: Apache-2.0
// Method: bytes written by hand from the standards and from the Trio paper's Figure 8, read back
// field by field.
#include "wire/headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "wire/trio_ml.h"

namespace tributary::wire {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(EthernetHeader, FieldsAreReadAndWritten) {
  const auto bytes = bytes_of(
      {0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x06, 0x66, 0x77, 0x88, 0x99, 0xaa, 0x08, 0x00});
  ASSERT_EQ(bytes.size(), EthernetHeader::kBytes);
  const View<EthernetHeader> view(bytes.data());
  EXPECT_EQ(view.get<EthernetHeader::DestinationHigh>(), 0x02112233U);
  EXPECT_EQ(view.get<EthernetHeader::DestinationLow>(), 0x4455U);
  EXPECT_EQ(view.get<EthernetHeader::SourceHigh>(), 0x06667788U);
  EXPECT_EQ(view.get<EthernetHeader::SourceLow>(), 0x99aaU);
  EXPECT_EQ(view.get<EthernetHeader::EtherType>(), kEtherTypeIpv4);
}

TEST(Ipv4Header, FieldsAreReadAndWritten) {
  // Version 4, 5 words; 0x0054 bytes; flags "more fragments", offset 0x0123; TTL 64; UDP.
  const auto bytes = bytes_of({0x45, 0x00, 0x00, 0x54, 0xbe, 0xef, 0x21, 0x23, 0x40, 0x11,
                               0xab, 0xcd, 10,   0,    0,    1,    192,  168,  7,    9});
  ASSERT_EQ(bytes.size(), Ipv4Header::kBytes);
  const View<Ipv4Header> view(bytes.data());
  EXPECT_EQ(view.get<Ipv4Header::Version>(), 4U);
  EXPECT_EQ(view.get<Ipv4Header::HeaderWords>(), 5U);
  EXPECT_EQ(view.get<Ipv4Header::TotalLength>(), 84U);
  EXPECT_EQ(view.get<Ipv4Header::MoreFragments>(), 1U);
  EXPECT_EQ(view.get<Ipv4Header::FragmentOffset>(), 0x123U);
  EXPECT_EQ(view.get<Ipv4Header::TimeToLive>(), 64U);
  EXPECT_EQ(view.get<Ipv4Header::Protocol>(), kIpProtocolUdp);
  EXPECT_EQ(view.get<Ipv4Header::HeaderChecksum>(), 0xabcdU);
  EXPECT_EQ(view.get<Ipv4Header::SourceAddress>(), 0x0a000001U);
  EXPECT_EQ(view.get<Ipv4Header::DestinationAddress>(), 0xc0a80709U);
}

TEST(Ipv6Header, FieldsAreReadAndWritten) {
  auto bytes = bytes_of({0x60, 0, 0, 0, 0x01, 0x02, 17, 64});
  bytes.resize(Ipv6Header::kBytes);
  bytes[Ipv6Header::kSourceByte] = std::byte{0xfe};
  const View<Ipv6Header> view(bytes.data());
  EXPECT_EQ(view.get<Ipv6Header::Version>(), 6U);
  EXPECT_EQ(view.get<Ipv6Header::PayloadLength>(), 0x102U);
  EXPECT_EQ(view.get<Ipv6Header::NextHeader>(), kIpProtocolUdp);
  EXPECT_EQ(view.bytes()[Ipv6Header::kSourceByte], std::byte{0xfe});
}

TEST(UdpHeader, FieldsAreReadAndWritten) {
  const auto bytes = bytes_of({0x30, 0x39, 0x2e, 0xe0, 0x00, 0x10, 0x12, 0x34});
  ASSERT_EQ(bytes.size(), UdpHeader::kBytes);
  const View<UdpHeader> view(bytes.data());
  EXPECT_EQ(view.get<UdpHeader::SourcePort>(), 12345U);
  EXPECT_EQ(view.get<UdpHeader::DestinationPort>(), kTrioMlPort);
  EXPECT_EQ(view.get<UdpHeader::Length>(), 16U);
  EXPECT_EQ(view.get<UdpHeader::Checksum>(), 0x1234U);
}

/// The twelve bytes of Figure 8, with every field different.
///   job_id 0xa1, block_id 0x01020304,
///   byte 5: age_op 0101, final 1, degraded 0, extended 1, unused 0 = 0101 1010,
///   src_id 0x07, src_cnt 0x06, gen_id 0xbeef, 4 bits of room, grad_cnt 0x123.
const auto kFigure8 =
    bytes_of({0xa1, 0x01, 0x02, 0x03, 0x04, 0x5a, 0x07, 0x06, 0xbe, 0xef, 0x01, 0x23});

TEST(TrioMlHeader, LayoutMatchesFigure8) {
  ASSERT_EQ(kFigure8.size(), TrioMlHeader::kBytes);
  TrioMlFields fields;
  decode_header(View<TrioMlHeader>(kFigure8.data()), fields);
  EXPECT_EQ(fields.job_id, 0xa1);
  EXPECT_EQ(fields.block_id, 0x01020304U);
  EXPECT_EQ(fields.age_op, 5);
  EXPECT_TRUE(fields.final);
  EXPECT_FALSE(fields.degraded);
  EXPECT_TRUE(fields.extended);
  EXPECT_EQ(fields.src_id, 7);
  EXPECT_EQ(fields.src_cnt, 6);
  EXPECT_EQ(fields.gen_id, 0xbeef);
  EXPECT_EQ(fields.grad_cnt, 0x123);
}

TEST(TrioMlHeader, EncodesFigure8) {
  std::vector<std::byte> bytes(TrioMlHeader::kBytes, std::byte{0xff});  // Unused bits become 0.
  encode_header({.job_id = 0xa1,
                 .block_id = 0x01020304,
                 .age_op = 5,
                 .final = true,
                 .degraded = false,
                 .extended = true,
                 .src_id = 7,
                 .src_cnt = 6,
                 .gen_id = 0xbeef,
                 .grad_cnt = 0x123},
                bytes.data());
  EXPECT_EQ(bytes, kFigure8);
}

TEST(TrioMlHeader, FlagBitsOfByteFiveMatchFigure8) {
  const auto byte_five = [](TrioMlFields fields) {
    std::array<std::byte, TrioMlHeader::kBytes> bytes;
    encode_header(fields, bytes.data());
    return std::to_integer<uint32_t>(bytes[5]);
  };
  EXPECT_EQ(byte_five({.age_op = 1}), 0x10U);  // The high four bits.
  EXPECT_EQ(byte_five({.age_op = 15}), 0xf0U);
  EXPECT_EQ(byte_five({.final = true}), 1U << 3);
  EXPECT_EQ(byte_five({.degraded = true}), 1U << 2);
  EXPECT_EQ(byte_five({.extended = true}), 1U << 1);  // Bit 0 stays unused.
}

TEST(TrioMlHeader, ReceiverIgnoresUnusedBits) {
  auto bytes = kFigure8;
  bytes[5] |= std::byte{0x01};
  bytes[10] |= std::byte{0xf0};
  TrioMlFields fields;
  decode_header(View<TrioMlHeader>(bytes.data()), fields);
  EXPECT_EQ(fields.age_op, 5);
  EXPECT_EQ(fields.grad_cnt, 0x123);
}

}  // namespace
}  // namespace tributary::wire
