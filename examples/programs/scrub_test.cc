// SPDX-License-Identifier: Apache-2.0
// Method: random UDP and TCP packets with right checksums. Afterwards the payload is zero, the
// checksum is right, and every other byte is as before.
#include "scrub.h"

#include <gtest/gtest.h>

#include "tests/programs/interleaved_run.h"
#include "tests/support/seed.h"

namespace scrub {
namespace {

namespace trib = tributary::testing;

/// A packet over IPv4 with `options` words of IP options.
struct Shape {
  uint32_t protocol;
  uint32_t options = 0;
  uint32_t payload_bytes = 0;
  uint32_t padding_bytes = 0;  ///< Behind the IP packet.

  [[nodiscard]] uint32_t transport_at() const {
    return EthernetHeader::kBytes + Ipv4Header::kBytes + 4 * options;
  }
  [[nodiscard]] uint32_t payload_at() const {
    return transport_at() +
           (protocol == wire::kIpProtocolTcp ? TcpHeader::kBytes : UdpHeader::kBytes);
  }
  [[nodiscard]] uint32_t end() const { return payload_at() + payload_bytes; }
};

/// Returns the transport checksum's sum over pseudo header, header and payload: 0xffff if it is
/// right (RFC 9293 §3.1).
uint32_t sum_of(const trib::Frame& frame, const Shape& shape) {
  const std::span<const std::byte> bytes(frame);
  const uint32_t transport_bytes = shape.end() - shape.transport_at();
  const uint64_t pseudo =
      uint64_t{word_sum(bytes.subspan(26, 8))} + shape.protocol + transport_bytes;
  return fold_sum(pseudo + word_sum(bytes.subspan(shape.transport_at(), transport_bytes)));
}

trib::Frame frame_of(Prng& prng, const Shape& shape) {
  trib::Frame frame(shape.end() + shape.padding_bytes);
  for (std::byte& byte : frame) byte = static_cast<std::byte>(prng.below(256));
  wire::MutableView<EthernetHeader>(frame.data()).set<EthernetHeader::EtherType>(0x0800);
  wire::MutableView<Ipv4Header> ip(frame.data() + EthernetHeader::kBytes);
  ip.set<Ipv4Header::HeaderWords>(5 + shape.options);
  ip.set<Ipv4Header::TotalLength>(shape.end() - EthernetHeader::kBytes);
  ip.set<Ipv4Header::MoreFragments>(0);
  ip.set<Ipv4Header::FragmentOffset>(0);
  ip.set<Ipv4Header::Protocol>(shape.protocol);
  std::byte* const transport = frame.data() + shape.transport_at();
  if (shape.protocol == wire::kIpProtocolUdp) {
    wire::MutableView<UdpHeader> udp(transport);
    udp.set<UdpHeader::Length>(shape.end() - shape.transport_at());
    udp.set<UdpHeader::Checksum>(0);
    const uint32_t checksum = ~sum_of(frame, shape) & 0xffff;
    udp.set<UdpHeader::Checksum>(checksum == 0 ? 0xffff : checksum);  // 0: none (RFC 768).
  } else if (shape.protocol == wire::kIpProtocolTcp) {
    wire::MutableView<TcpHeader> tcp(transport);
    tcp.set<TcpHeader::HeaderWords>(5);
    tcp.set<TcpHeader::Checksum>(0);
    tcp.set<TcpHeader::Checksum>(~sum_of(frame, shape) & 0xffff);
  }
  return frame;
}

/// Returns the frame with its payload and its checksum cleared.
trib::Frame without_payload(trib::Frame frame, const Shape& shape) {
  const bool is_udp = shape.protocol == wire::kIpProtocolUdp;
  const uint32_t checksum_at = shape.transport_at() + (is_udp ? UdpHeader::Checksum::kFirstByte
                                                              : TcpHeader::Checksum::kFirstByte);
  std::fill_n(frame.begin() + checksum_at, 2, std::byte{0});
  std::fill(frame.begin() + shape.payload_at(), frame.begin() + shape.end(), std::byte{0});
  return frame;
}

std::vector<trib::Frame> run(const std::vector<trib::Frame>& frames, uint64_t seed) {
  const auto program = trib::make_program<Scrub>();
  return trib::run_interleaved(**program, frames, seed);
}

TEST(Scrub, TheExampleOfRfc1624) {
  // §4: a word changes from 0x5555 to 0x3285 under the checksum 0xdd2f, which becomes 0x0000. From
  // 0x3285 to 0 it becomes 0x3285.
  EXPECT_EQ(checksum_after(0xdd2f, 0x5555 - 0x3285), 0x0000U);
  EXPECT_EQ(checksum_after(0x0000, 0x3285), 0x3285U);
}

TEST(Scrub, PayloadsBecomeZeroUnderARightChecksum) {
  const uint64_t seed = trib::seed_from_env();
  SCOPED_TRACE(trib::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t i = 0; i < 1'000; i++) {
    const Shape shape{.protocol = prng.below(2) == 0 ? wire::kIpProtocolUdp : wire::kIpProtocolTcp,
                      .options = prng.below(11),
                      .payload_bytes = prng.below(4) == 0 ? prng.below(1'400) : prng.below(300),
                      .padding_bytes = prng.below(10)};
    const trib::Frame frame = frame_of(prng, shape);
    ASSERT_EQ(sum_of(frame, shape), 0xffffU);
    const std::vector<trib::Frame> passed = run({frame}, prng.any_u64());
    ASSERT_EQ(passed.size(), 1U);
    ASSERT_EQ(sum_of(passed[0], shape), 0xffffU);
    const std::span<const std::byte> payload =
        std::span(passed[0]).subspan(shape.payload_at(), shape.payload_bytes);
    ASSERT_EQ(word_sum(payload), 0U);
    ASSERT_EQ(without_payload(passed[0], shape), without_payload(frame, shape));
  }
}

TEST(Scrub, PacketsAtOnceKeepTheirOwnBytes) {
  Prng prng(3);
  std::vector<trib::Frame> frames;
  std::vector<trib::Frame> expected;
  for (uint32_t size = 0; size < 500; size++) {
    const Shape shape{.protocol = wire::kIpProtocolUdp, .payload_bytes = size};
    frames.push_back(frame_of(prng, shape));
    expected.push_back(run({frames.back()}, 1).at(0));
  }
  std::vector<trib::Frame> passed = run(frames, 7);
  std::sort(passed.begin(), passed.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(passed, expected);
}

TEST(Scrub, AWrongChecksumStaysWrongAndNoneStaysNone) {
  Prng prng(1);
  const Shape shape{.protocol = wire::kIpProtocolUdp, .payload_bytes = 400};
  trib::Frame frame = frame_of(prng, shape);
  frame[shape.transport_at() + UdpHeader::Checksum::kFirstByte] ^= std::byte{1};
  const uint32_t wrong = sum_of(frame, shape);
  EXPECT_NE(wrong, 0xffffU);
  EXPECT_EQ(sum_of(run({frame}, 1).at(0), shape), wrong);
  wire::MutableView<UdpHeader>(frame.data() + shape.transport_at()).set<UdpHeader::Checksum>(0);
  EXPECT_EQ(run({frame}, 1).at(0), without_payload(frame, shape));
}

TEST(Scrub, OtherPacketsPassUnchanged) {
  Prng prng(2);
  const Shape tcp{.protocol = wire::kIpProtocolTcp, .payload_bytes = 300};
  trib::Frame fragment = frame_of(prng, tcp);
  wire::MutableView<Ipv4Header>(fragment.data() + 14).set<Ipv4Header::MoreFragments>(1);
  trib::Frame short_header = frame_of(prng, tcp);
  wire::MutableView<TcpHeader>(short_header.data() + 34).set<TcpHeader::HeaderWords>(4);
  trib::Frame ipv6 = frame_of(prng, tcp);
  wire::MutableView<EthernetHeader>(ipv6.data()).set<EthernetHeader::EtherType>(0x86dd);
  trib::Frame cut = frame_of(prng, tcp);
  cut.resize(tcp.payload_at());
  const trib::Frame icmp = frame_of(prng, {.protocol = 1, .payload_bytes = 300});
  for (const trib::Frame& frame : {fragment, short_header, ipv6, cut, icmp, trib::Frame(10)}) {
    EXPECT_EQ(run({frame}, 1), std::vector<trib::Frame>{frame});
  }
}

}  // namespace
}  // namespace scrub
