// SPDX-License-Identifier: Apache-2.0
// Method: whole frames computed by hand, then refusals, then random frames. The checksums of random
// frames must add up to all ones, as a receiver checks them.
#include "io/frames/udp_frame.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/io/frames/bytes.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

const UdpFrameAddresses kIpv4{.source_mac = {2, 0, 0, 0, 0, 1},
                              .destination_mac = {2, 0, 0, 0, 0, 2},
                              .source = Endpoint::ipv4(0x0a000001, 5000),
                              .destination = Endpoint::ipv4(0x0a000002, 12000)};

UdpFrameAddresses ipv6() {
  UdpFrameAddresses addresses = kIpv4;
  addresses.source = *Endpoint::parse("[fd00::1]:5000");
  addresses.destination = *Endpoint::parse("[fd00::2]:12000");
  return addresses;
}

TEST(UdpFrame, Ipv4FrameMatchesHandWrittenBytes) {
  // IPv4 checksum: 4500+001f+0000+4000+4011+0a00+0001+0a00+0002 = d933, inverted 26cc.
  // UDP checksum: addresses 0a00+0001+0a00+0002 = 1403, protocol 0011, length 000b twice,
  // ports 1388+2ee0 = 4268, payload 0102+0300 = 0402; all: 5a94, inverted a56b.
  const Bytes payload = from_hex("01 02 03");
  Bytes frame(64);
  ASSERT_EQ(build_udp_frame(kIpv4, payload, frame), 45U);
  frame.resize(45);
  EXPECT_EQ(frame, from_hex("02 00 00 00 00 02 02 00 00 00 00 01 08 00 "
                            "45 00 00 1f 00 00 40 00 40 11 26 cc 0a 00 00 01 0a 00 00 02 "
                            "13 88 2e e0 00 0b a5 6b 01 02 03"));
}

TEST(UdpFrame, Ipv6FrameMatchesHandWrittenBytes) {
  // UDP checksum: addresses fd00+0001+fd00+0002 = 1fa03, protocol 0011, length 000a twice,
  // ports 4268, payload ffff: 1fa03+11+a+a+4268+ffff = 33c8f; folded 3c92, inverted c36d.
  const Bytes payload = from_hex("ff ff");
  Bytes frame(64);
  ASSERT_EQ(build_udp_frame(ipv6(), payload, frame), 64U);
  EXPECT_EQ(frame, from_hex("02 00 00 00 00 02 02 00 00 00 00 01 86 dd "
                            "60 00 00 00 00 0a 11 40 "
                            "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
                            "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 "
                            "13 88 2e e0 00 0a c3 6d ff ff"));
}

TEST(UdpFrame, ChecksumMatchesTheExampleOfRfc1071) {
  // RFC 1071 §3: 0001 f203 f4f5 f6f7 sum to ddf2, inverted 220d.
  EXPECT_EQ(internet_checksum(from_hex("00 01 f2 03 f4 f5 f6 f7")), 0x220d);
  EXPECT_EQ(internet_checksum({}), 0xffff);
  EXPECT_EQ(internet_checksum(from_hex("12")), 0xedff);  // The odd byte is the high one.
}

TEST(UdpFrame, ZeroUdpChecksumIsSentAsAllOnes) {
  // As in the first test but with two payload bytes: 1403+0011+000a+000a+4268 = 5690. A payload of
  // a96f makes the sum ffff and the checksum 0, which would mean "none".
  Bytes frame(64);
  ASSERT_EQ(build_udp_frame(kIpv4, from_hex("a9 6f"), frame), 44U);
  EXPECT_EQ(load_be<uint16_t>(frame.data() + 40), 0xffff);
}

TEST(UdpFrame, RefusesFramesThatDoNotFitAndWritesNothing) {
  const Bytes payload(10);
  Bytes frame(42 + 9, std::byte{0x55});
  EXPECT_EQ(build_udp_frame(kIpv4, payload, frame), 0U);
  UdpFrameAddresses mixed = kIpv4;
  mixed.destination = ipv6().destination;
  frame.resize(200, std::byte{0x55});
  EXPECT_EQ(build_udp_frame(mixed, payload, frame), 0U);
  EXPECT_TRUE(std::all_of(frame.begin(), frame.end(),
                          [](std::byte byte) { return byte == std::byte{0x55}; }));
  const Bytes oversized(65'508);
  Bytes large(70'000);
  EXPECT_EQ(build_udp_frame(kIpv4, oversized, large), 0U);
  EXPECT_EQ(build_udp_frame(kIpv4, std::span(oversized).first(65'507), large), 65'549U);
}

/// Adds big-endian words with end-around carry, one at a time: the simplest checksum.
uint32_t add_words(uint32_t sum, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); i++) {
    sum += std::to_integer<uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    if (sum > 0xffff) sum -= 0xffff;
  }
  return sum;
}

TEST(UdpFrame, RandomFramesPassTheReceiversCheck) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 2000; step++) {
    UdpFrameAddresses addresses = prng.chance(0.5) ? kIpv4 : ipv6();
    const bool ipv4 = addresses.source.is_ipv4();
    for (uint32_t i = 12; i < 16; i++) {
      addresses.source.address[i] = static_cast<uint8_t>(prng.any_u32());
      addresses.destination.address[i] = static_cast<uint8_t>(prng.any_u32());
    }
    addresses.source.port = static_cast<uint16_t>(prng.any_u32());
    Bytes payload(prng.below(300));
    for (std::byte& byte : payload) byte = static_cast<std::byte>(prng.any_u32());
    Bytes frame(400);
    const uint32_t size = build_udp_frame(addresses, payload, frame);
    const uint32_t headers = ipv4 ? 42 : 62;
    ASSERT_EQ(size, headers + payload.size());
    const std::span<const std::byte> bytes(frame.data(), size);
    if (ipv4) {
      ASSERT_EQ(add_words(0, bytes.subspan(14, 20)), 0xffffU) << "step " << step;
    }
    const auto ip_addresses = ipv4 ? bytes.subspan(26, 8) : bytes.subspan(22, 32);
    const auto udp = bytes.subspan(headers - 8);
    uint32_t sum = add_words(17 + static_cast<uint32_t>(udp.size()), ip_addresses);
    sum = add_words(sum, udp);
    ASSERT_EQ(sum, 0xffffU) << "step " << step;
    ASSERT_TRUE(std::equal(payload.begin(), payload.end(), udp.begin() + 8));
  }
}

}  // namespace
}  // namespace tributary::io
