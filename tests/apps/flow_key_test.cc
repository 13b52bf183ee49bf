// SPDX-License-Identifier: Apache-2.0
// Method: frames by hand for every header and every defect, then random damage: a parser must name
// a defect or return lengths that lie in the frame, and read nothing behind it.
#include "apps/flow_key.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <source_location>
#include <string>
#include <utility>

#include "microcode/metered_head.h"
#include "tests/apps/telemetry/frames.h"
#include "tests/support/seed.h"

namespace tributary::apps {
namespace {

using telemetry::frame_of;
using telemetry::FrameSpec;

struct Parsed {
  FlowFit fit;
  FlowPacket packet;
};

/// Parses the frame, of which a thread sees at most `head_bytes`.
Parsed parse(const Bytes& frame, size_t head_bytes = 192) {
  // A copy of the exact size, so that a sanitizer sees reads behind it.
  const size_t size = std::min(frame.size(), head_bytes);
  const auto head = std::make_unique<std::byte[]>(size);
  std::copy_n(frame.begin(), size, head.get());
  Parsed parsed{};
  parsed.fit = parse_flow(microcode::PacketHead({head.get(), size}),
                          static_cast<uint32_t>(frame.size()), NoMarks(), parsed.packet);
  return parsed;
}

Endpoint v4(uint32_t address) { return Endpoint::ipv4(address, 0); }

/// A machine with a meter, for ThreadMarks.
struct Metered {
  void instruction(const microcode::Instruction& mark, const std::source_location& place) {
    meter.begin(mark, 1, place);
  }
  microcode::AccessMeter& access_meter() { return meter; }
  microcode::AccessMeter meter;
};

/// Returns the use of each instruction that parses the frame.
std::map<std::string, microcode::AccessCount> measure(const Bytes& frame) {
  Metered m;
  const microcode::MeteredHead head(frame, microcode::kHeadroomBytes, &m.meter,
                                    std::source_location::current());
  FlowPacket packet{};
  EXPECT_EQ(parse_flow(head, static_cast<uint32_t>(frame.size()), ThreadMarks<Metered>{m}, packet),
            FlowFit::kFits);
  m.meter.pause();
  EXPECT_TRUE(m.meter.unpriced().empty());
  std::map<std::string, microcode::AccessCount> used;
  for (const auto& row : m.meter.instructions()) used[row.name] = row.most;
  return used;
}

// --- By hand -------------------------------------------------------------------------------------

TEST(FlowKey, ReadsATcpFrame) {
  // 192.0.2.1:40000 > 198.51.100.7:443, SYN and ACK, 20 + 20 bytes and 6 bytes of padding.
  const Bytes frame = from_hex(
      "00 11 22 33 44 55 66 77 88 99 aa bb 08 00 "
      "45 00 00 28 00 01 40 00 40 06 00 00 c0 00 02 01 c6 33 64 07 "
      "9c 40 01 bb 00 00 00 01 00 00 00 02 50 12 ff ff 00 00 00 00 "
      "00 00 00 00 00 00 ");
  const auto [fit, packet] = parse(frame);
  ASSERT_EQ(fit, FlowFit::kFits);
  EXPECT_EQ(packet.key.source, v4(0xc0000201).address);
  EXPECT_EQ(packet.key.destination, v4(0xc6336407).address);
  EXPECT_EQ(packet.key.source_port, 40000);
  EXPECT_EQ(packet.key.destination_port, 443);
  EXPECT_EQ(packet.key.protocol, 6);
  EXPECT_EQ(packet.key.ip_version, 4);
  EXPECT_EQ(packet.key.vlan, 0);
  EXPECT_EQ(packet.ip_bytes, 40U);  // Without Ethernet header and padding.
  EXPECT_EQ(packet.tcp_flags, wire::kTcpSyn | wire::kTcpAck);
}

TEST(FlowKey, ReadsVlanTags) {
  const auto one = parse(frame_of({.vlan = 100}));
  ASSERT_EQ(one.fit, FlowFit::kFits);
  EXPECT_EQ(one.packet.key.vlan, 100);  // Without the priority bits.
  EXPECT_EQ(one.packet.key.customer_vlan, 0);
  const auto two = parse(frame_of({.is_ipv6 = true, .vlan = 100, .customer_vlan = 7}));
  ASSERT_EQ(two.fit, FlowFit::kFits);
  EXPECT_EQ(two.packet.key.vlan, 100);
  EXPECT_EQ(two.packet.key.customer_vlan, 7);

  Bytes three = frame_of({.vlan = 100, .customer_vlan = 7});
  const Bytes tag = from_hex("81 00 00 01 ");
  three.insert(three.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(parse(three).fit, FlowFit::kTooManyTags);
}

TEST(FlowKey, InstructionsReadAndWriteLocalMemoryWithinTheirBudgets) {
  const auto ipv4 = measure(frame_of({.vlan = 100}));
  EXPECT_EQ(ipv4.at("parse_addresses").lmem_writes, 2U);  // One for each address.
  EXPECT_EQ(ipv4.at("parse_ports").lmem_writes, 1U);      // Both ports are in one access.
  EXPECT_EQ(ipv4.at("parse_ip").lmem_writes, 0U);         // It writes registers.
  const auto ipv6 = measure(frame_of({.is_ipv6 = true}));
  EXPECT_EQ(ipv6.at("parse_source").lmem_writes, 2U);
  EXPECT_EQ(ipv6.at("parse_destination").lmem_writes, 2U);
  EXPECT_EQ(measure(frame_of({.protocol = 1})).at("parse_ports").lmem_writes, 1U);
}

TEST(FlowKey, ReadsPortsByProtocol) {
  for (const bool is_ipv6 : {false, true}) {
    for (const uint32_t protocol : {17U, 33U, 132U, 136U}) {
      const auto [fit, packet] = parse(frame_of({.is_ipv6 = is_ipv6, .protocol = protocol}));
      ASSERT_EQ(fit, FlowFit::kFits);
      EXPECT_EQ(packet.key.source_port, 1000) << protocol;
      EXPECT_EQ(packet.key.destination_port, 53) << protocol;
      EXPECT_EQ(packet.ip_bytes, (is_ipv6 ? 40U : 20U) + 18);
    }
    // ICMP: type 8, code 1. Other protocols have no ports.
    for (const uint32_t protocol : {1U, 58U, 47U, 50U}) {
      const auto [fit, packet] =
          parse(frame_of({.is_ipv6 = is_ipv6, .protocol = protocol, .destination_port = 0x0801}));
      ASSERT_EQ(fit, FlowFit::kFits);
      EXPECT_EQ(packet.key.source_port, 0);
      EXPECT_EQ(packet.key.destination_port, protocol == 1 || protocol == 58 ? 0x0801 : 0);
      EXPECT_EQ(packet.key.protocol, protocol);
    }
  }
}

TEST(FlowKey, SkipsIpv4Options) {
  const auto [fit, packet] = parse(frame_of({.option_words = 10}));
  ASSERT_EQ(fit, FlowFit::kFits);
  EXPECT_EQ(packet.key.destination_port, 53);
  EXPECT_EQ(packet.ip_bytes, 60U + 18);
}

// As a capture at the sender has them: the card fills in the length of each segment.
TEST(FlowKey, ATcpPacketOfLengthZeroEndsWithItsFrame) {
  for (const bool is_ipv6 : {false, true}) {
    const uint32_t length_at = is_ipv6 ? 18 : 16;
    for (const uint32_t vlan : {0U, 5U}) {
      Bytes frame = frame_of({.is_ipv6 = is_ipv6,
                              .protocol = wire::kIpProtocolTcp,
                              .vlan = vlan,
                              .payload_bytes = 3'000});
      const uint32_t ether_bytes = vlan == 0 ? 14 : 18;
      const uint32_t at = length_at + ether_bytes - 14;
      frame[at] = frame[at + 1] = std::byte{0};
      const auto [fit, packet] = parse(frame);
      ASSERT_EQ(fit, FlowFit::kFits);
      EXPECT_EQ(packet.ip_bytes, frame.size() - ether_bytes);
      EXPECT_EQ(packet.key.destination_port, 53);
      EXPECT_EQ(measure(frame).at("parse_ip").lmem_writes, 0U);  // Within its budget.
      frame.resize(ether_bytes + (is_ipv6 ? 40 : 20) + 13);      // The flags are missing.
      EXPECT_EQ(parse(frame).fit, FlowFit::kTruncated);
    }
    Bytes udp = frame_of({.is_ipv6 = is_ipv6});
    udp[length_at] = udp[length_at + 1] = std::byte{0};
    EXPECT_EQ(parse(udp).fit, is_ipv6 ? FlowFit::kTruncated : FlowFit::kBadIpHeader);
  }
}

TEST(FlowKey, LaterFragmentsHavePortsZero) {
  const auto first = parse(frame_of({.more_fragments = true}));
  ASSERT_EQ(first.fit, FlowFit::kFits);
  EXPECT_EQ(first.packet.key.source_port, 1000);
  const auto later = parse(frame_of({.protocol = 6, .fragment_offset = 100}));
  ASSERT_EQ(later.fit, FlowFit::kFits);
  EXPECT_EQ(later.packet.key.source_port, 0);
  EXPECT_EQ(later.packet.key.protocol, 6);
  EXPECT_EQ(later.packet.tcp_flags, 0U);
}

TEST(FlowKey, SkipsIpv6ExtensionHeaders) {
  // Hop-by-hop of 16 bytes, authentication of 12, destination options of 8, fragment 0, UDP.
  FrameSpec spec{.is_ipv6 = true,
                 .extensions = from_hex("33 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
                                        "3c 01 00 00 00 00 00 00 00 00 00 00 "
                                        "2c 00 00 00 00 00 00 00 "
                                        "11 00 00 01 00 00 00 09 "),
                 .first_extension = wire::kIpv6HopByHop};
  const auto first = parse(frame_of(spec));
  ASSERT_EQ(first.fit, FlowFit::kFits);
  EXPECT_EQ(first.packet.key.protocol, 17);
  EXPECT_EQ(first.packet.key.source_port, 1000);
  EXPECT_EQ(first.packet.ip_bytes, 40U + 44 + 18);

  // The same at offset 8: the payload looks like an extension header, but is none.
  spec.extensions = from_hex("3c 00 00 08 00 00 00 09 ");
  spec.first_extension = wire::kIpv6Fragment;
  const auto later = parse(frame_of(spec));
  ASSERT_EQ(later.fit, FlowFit::kFits);
  EXPECT_EQ(later.packet.key.protocol, 60);
  EXPECT_EQ(later.packet.key.source_port, 0);
}

// --- Defects -------------------------------------------------------------------------------------

TEST(FlowKey, NamesEachDefect) {
  EXPECT_EQ(parse({}).fit, FlowFit::kTruncated);
  EXPECT_EQ(parse(Bytes(13)).fit, FlowFit::kTruncated);
  EXPECT_EQ(parse(Bytes(60)).fit, FlowFit::kNotIp);  // EtherType 0: an 802.3 length.
  const auto with = [](const FrameSpec& spec, uint32_t offset, uint8_t value) {
    Bytes frame = frame_of(spec);
    frame[offset] = std::byte{value};
    return parse(frame).fit;
  };
  EXPECT_EQ(with({}, 13, 0x06), FlowFit::kNotIp);        // ARP.
  EXPECT_EQ(with({}, 14, 0x65), FlowFit::kBadIpHeader);  // Version 6 in IPv4.
  EXPECT_EQ(with({}, 14, 0x44), FlowFit::kBadIpHeader);  // Header of 16 bytes.
  EXPECT_EQ(with({}, 14, 0x4f), FlowFit::kBadIpHeader);  // Header longer than the packet.
  EXPECT_EQ(with({}, 17, 19), FlowFit::kBadIpHeader);    // Total length below the header's.
  EXPECT_EQ(with({}, 17, 47), FlowFit::kTruncated);      // Longer than the frame.
  EXPECT_EQ(with({}, 17, 23), FlowFit::kTruncated);      // No room for the ports.
  EXPECT_EQ(with({}, 17, 24), FlowFit::kFits);
  EXPECT_EQ(with({.protocol = 6}, 17, 33), FlowFit::kTruncated);  // No room for the flags.
  EXPECT_EQ(with({.protocol = 6}, 17, 34), FlowFit::kFits);
  EXPECT_EQ(with({.is_ipv6 = true}, 14, 0x40), FlowFit::kBadIpHeader);
  EXPECT_EQ(with({.is_ipv6 = true}, 19, 19), FlowFit::kTruncated);
  EXPECT_EQ(with({.is_ipv6 = true}, 19, 3), FlowFit::kTruncated);
}

TEST(FlowKey, StopsAtTheHead) {
  // 18 extension headers of 8 bytes begin at 54 and end at 198: the ports lie behind the head.
  Bytes extensions;
  const Bytes options = from_hex("3c 00 00 00 00 00 00 00 ");
  for (uint32_t i = 0; i < 18; i++) {
    extensions.insert(extensions.end(), options.begin(), options.end());
  }
  const FrameSpec spec{.is_ipv6 = true, .extensions = extensions, .first_extension = 60};
  EXPECT_EQ(parse(frame_of(spec)).fit, FlowFit::kHeadersTooLong);
  // The whole frame at hand: the last header names destination options, too, and the "header"
  // there is the UDP header.
  EXPECT_EQ(parse(frame_of(spec), 1500).fit, FlowFit::kTruncated);
}

TEST(FlowKey, EveryTruncationIsNamed) {
  for (const FrameSpec& spec : {FrameSpec{.protocol = 6, .vlan = 5, .payload_bytes = 0},
                                FrameSpec{.is_ipv6 = true, .protocol = 6, .payload_bytes = 0}}) {
    const Bytes whole = frame_of(spec);
    for (size_t size = 0; size < whole.size(); size++) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      // Bytes behind the IP packet are padding.
      const size_t ip_end = spec.is_ipv6 ? 14 + 60 : 18 + 40;
      EXPECT_EQ(parse(cut).fit, size < ip_end ? FlowFit::kTruncated : FlowFit::kFits) << size;
    }
  }
}

// 14 bytes of Ethernet, 4 of a tag, the IP header, and 4 bytes of ports or 14 up to the TCP flags.
TEST(FlowKey, ACapturedFlowHasNoFieldThatIsCut) {
  const std::array<std::pair<FrameSpec, size_t>, 4> cases{
      {{{.protocol = 6}, 14 + 20 + 14},
       {{.protocol = 17, .vlan = 5}, 14 + 4 + 20 + 4},
       {{.is_ipv6 = true, .protocol = 6}, 14 + 40 + 14},
       {{.is_ipv6 = true, .protocol = 17}, 14 + 40 + 4}}};
  for (const auto& [spec, needed] : cases) {
    const Bytes whole = frame_of(spec);
    FlowPacket expected;
    ASSERT_EQ(read_flow(whole, /*is_frame=*/true, expected), FlowFit::kFits);
    for (size_t held = 0; held <= whole.size(); held++) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(held));
      const auto wire_bytes = static_cast<uint32_t>(whole.size());
      FlowPacket packet;
      const FlowFit fit = read_captured_flow(cut, wire_bytes, packet);
      EXPECT_EQ(fit, held < needed ? FlowFit::kTruncated : FlowFit::kFits) << held;
      EXPECT_EQ(are_headers_cut(cut, wire_bytes), held < needed) << held;
      if (fit == FlowFit::kFits) {
        EXPECT_EQ(packet.key, expected.key);
        EXPECT_EQ(packet.ip_bytes, expected.ip_bytes);
        EXPECT_EQ(packet.tcp_flags, expected.tcp_flags);
      }
      // The held bytes alone are a truncated frame, so a program that gets them makes no record.
      if (held < needed) {
        FlowPacket alone;
        EXPECT_EQ(read_flow(cut, /*is_frame=*/true, alone), FlowFit::kTruncated) << held;
      }
    }
  }
}

// --- Hash and steering ---------------------------------------------------------------------------

TEST(FlowKey, HashDependsOnEveryByteAndOnTheSeed) {
  std::set<uint64_t> hashes;
  FlowKey key;
  for (uint64_t seed = 0; seed < 4; seed++) hashes.insert(FlowKeyHash{}(key, seed));
  auto* const bytes = reinterpret_cast<std::byte*>(&key);
  for (uint32_t i = 0; i < sizeof(FlowKey); i++) {
    for (uint32_t bit = 0; bit < 8; bit++) {
      bytes[i] ^= std::byte{1} << bit;
      hashes.insert(FlowKeyHash{}(key, 1));
      bytes[i] ^= std::byte{1} << bit;
    }
  }
  EXPECT_EQ(hashes.size(), 4 + sizeof(FlowKey) * 8);
}

// --- Random --------------------------------------------------------------------------------------

TEST(FlowKey, RandomDamageIsParsedSafely) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  std::array<uint32_t, 7> fits{};
  for (uint32_t round = 0; round < 50'000; round++) {
    FrameSpec spec{.is_ipv6 = prng.chance(0.5),
                   .protocol = prng.chance(0.5) ? 6 : prng.below(256),
                   .vlan = prng.chance(0.3) ? 5U : 0U,
                   .payload_bytes = prng.below(100),
                   .option_words = prng.below(11)};
    if (prng.chance(0.5)) {
      spec.extensions = from_hex("00 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ");
      spec.extensions[0] = static_cast<std::byte>(prng.below(61));
    }
    Bytes frame = frame_of(spec);
    for (uint32_t i = prng.below(4); i > 0; i--) {
      frame[prng.below(60)] = static_cast<std::byte>(prng.any_u32());
    }
    frame.resize(prng.below(static_cast<uint32_t>(frame.size()) + 1));
    const auto [fit, packet] = parse(frame, 60 + prng.below(133));
    fits[static_cast<size_t>(fit)]++;
    if (fit == FlowFit::kFits) {
      ASSERT_LE(packet.ip_bytes + 14, frame.size());
      ASSERT_GE(packet.ip_bytes, 20U);
      ASSERT_EQ(packet.key.padding, (std::array<uint8_t, 6>{}));
    }
  }
  for (const FlowFit fit : {FlowFit::kFits, FlowFit::kNotIp, FlowFit::kBadIpHeader,
                            FlowFit::kHeadersTooLong, FlowFit::kTruncated}) {
    EXPECT_GT(fits[static_cast<size_t>(fit)], 0U) << static_cast<uint32_t>(fit);
  }
}

}  // namespace
}  // namespace tributary::apps
