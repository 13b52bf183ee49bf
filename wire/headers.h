// SPDX-License-Identifier: Apache-2.0
/// @file
/// Protocol headers as bit-field layouts, in the field order of their standards.
///
/// Sources: IEEE 802.3, 802.1Q; RFC 791, 792, 768, 8200, 9293; Trio-ML: Trio paper Figure 8. The
///          extension after the Trio-ML header is this project's own: docs/wire-format.md.
/// Tests:   tests/wire/headers_test.cc
#pragma once

#include <cstdint>

#include "wire/bit_field.h"

namespace tributary::wire {

struct EthernetHeader {
  static constexpr uint32_t kBytes = 14;
  using DestinationHigh = Field<kBytes, 0, 32>;
  using DestinationLow = Field<kBytes, 32, 16>;
  using SourceHigh = Field<kBytes, 48, 32>;
  using SourceLow = Field<kBytes, 80, 16>;
  using EtherType = Field<kBytes, 96, 16>;
};
inline constexpr uint32_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint32_t kEtherTypeIpv6 = 0x86dd;

/// The tag between the addresses and the EtherType of the payload (IEEE 802.1Q).
struct VlanTag {
  static constexpr uint32_t kBytes = 4;
  using Priority = Field<kBytes, 0, 3>;
  using VlanId = Field<kBytes, 4, 12>;
  using EtherType = Field<kBytes, 16, 16>;  ///< Type of the next tag or the payload.
};
inline constexpr uint32_t kEtherTypeVlan = 0x8100;
inline constexpr uint32_t kEtherTypeServiceVlan = 0x88a8;  ///< IEEE 802.1ad.
inline constexpr uint32_t kEtherTypeOldServiceVlan = 0x9100;

struct Ipv4Header {
  static constexpr uint32_t kBytes = 20;  ///< Without options.
  using Version = Field<kBytes, 0, 4>;
  using HeaderWords = Field<kBytes, 4, 4>;  ///< IHL, in 4-byte words.
  using TotalLength = Field<kBytes, 16, 16>;
  using MoreFragments = Field<kBytes, 50, 1>;
  using FragmentOffset = Field<kBytes, 51, 13>;
  using TimeToLive = Field<kBytes, 64, 8>;
  using Protocol = Field<kBytes, 72, 8>;
  using HeaderChecksum = Field<kBytes, 80, 16>;
  using SourceAddress = Field<kBytes, 96, 32>;
  using DestinationAddress = Field<kBytes, 128, 32>;
};
inline constexpr uint32_t kIpProtocolIcmp = 1;
inline constexpr uint32_t kIpProtocolTcp = 6;
inline constexpr uint32_t kIpProtocolUdp = 17;
inline constexpr uint32_t kIpProtocolDccp = 33;
inline constexpr uint32_t kIpProtocolIcmpv6 = 58;
inline constexpr uint32_t kIpProtocolSctp = 132;
inline constexpr uint32_t kIpProtocolUdpLite = 136;

struct Ipv6Header {
  static constexpr uint32_t kBytes = 40;
  using Version = Field<kBytes, 0, 4>;
  using PayloadLength = Field<kBytes, 32, 16>;
  using NextHeader = Field<kBytes, 48, 8>;
  static constexpr uint32_t kSourceByte = 8;  ///< The source address: 16 bytes from here.
  static constexpr uint32_t kDestinationByte = 24;
};

/// The first bytes of an extension header of IPv6 (RFC 8200 §4). The length counts units of eight
/// bytes behind the first eight; an authentication header counts four bytes less two (RFC 4302).
struct Ipv6Extension {
  static constexpr uint32_t kBytes = 2;
  using NextHeader = Field<kBytes, 0, 8>;
  using Length = Field<kBytes, 8, 8>;
};
inline constexpr uint32_t kIpv6HopByHop = 0;
inline constexpr uint32_t kIpv6Routing = 43;
inline constexpr uint32_t kIpv6Fragment = 44;
inline constexpr uint32_t kIpv6Authentication = 51;
inline constexpr uint32_t kIpv6DestinationOptions = 60;
inline constexpr uint32_t kIpv6Mobility = 135;

struct Ipv6FragmentHeader {
  static constexpr uint32_t kBytes = 8;
  using NextHeader = Field<kBytes, 0, 8>;
  using FragmentOffset = Field<kBytes, 16, 13>;
  using MoreFragments = Field<kBytes, 31, 1>;
};

/// The ports of TCP, UDP, SCTP, DCCP and UDP-Lite.
struct TransportPorts {
  static constexpr uint32_t kBytes = 4;
  using Source = Field<kBytes, 0, 16>;
  using Destination = Field<kBytes, 16, 16>;
};

/// The first part of a TCP header, up to its flags (RFC 9293 §3.1).
struct TcpHeaderStart {
  static constexpr uint32_t kBytes = 14;
  using ControlBits = Field<kBytes, 100, 12>;  ///< With the reserved bits, as in IPFIX (RFC 7125).
};

/// The first part of an ICMP and of an ICMPv6 header.
struct IcmpHeader {
  static constexpr uint32_t kBytes = 2;
  using TypeAndCode = Field<kBytes, 0, 16>;
};

struct UdpHeader {
  static constexpr uint32_t kBytes = 8;
  using SourcePort = Field<kBytes, 0, 16>;
  using DestinationPort = Field<kBytes, 16, 16>;
  using Length = Field<kBytes, 32, 16>;  ///< Header and payload.
  using Checksum = Field<kBytes, 48, 16>;
};

struct TcpHeader {
  static constexpr uint32_t kBytes = 20;  ///< Without options.
  using SourcePort = Field<kBytes, 0, 16>;
  using DestinationPort = Field<kBytes, 16, 16>;
  using SequenceNumber = Field<kBytes, 32, 32>;
  using AcknowledgmentNumber = Field<kBytes, 64, 32>;
  using HeaderWords = Field<kBytes, 96, 4>;  ///< Data offset, in 4-byte words.
  using Flags = Field<kBytes, 104, 8>;       ///< kTcpFin and its neighbours.
  using Window = Field<kBytes, 112, 16>;
  using Checksum = Field<kBytes, 128, 16>;
};
inline constexpr uint32_t kTcpFin = 0x01;
inline constexpr uint32_t kTcpSyn = 0x02;
inline constexpr uint32_t kTcpRst = 0x04;
inline constexpr uint32_t kTcpPsh = 0x08;
inline constexpr uint32_t kTcpAck = 0x10;

/// Trio paper Figure 8, bit for bit. Figure 8 leaves two bits unused. The upper one, here Extended,
/// announces an extension after the header; the lower one stays unused.
struct TrioMlHeader {
  static constexpr uint32_t kBytes = 12;
  using JobId = Field<kBytes, 0, 8>;
  using BlockId = Field<kBytes, 8, 32>;
  using AgeOp = Field<kBytes, 40, 4>;
  using Final = Field<kBytes, 44, 1>;
  using Degraded = Field<kBytes, 45, 1>;
  using Extended = Field<kBytes, 46, 1>;
  using Unused = Field<kBytes, 47, 1>;
  using SourceId = Field<kBytes, 48, 8>;
  using SourceCount = Field<kBytes, 56, 8>;  ///< 0 means 256, because every result has a source.
  using GenerationId = Field<kBytes, 64, 16>;
  using GradientCount = Field<kBytes, 84, 12>;
};
/// UDP port of aggregation packets. Source: Trio paper §4 ("e.g., 12000").
inline constexpr uint16_t kTrioMlPort = 12000;
/// Bytes of a gradient on the wire: a 32-bit integer, most significant byte first (§4).
inline constexpr uint32_t kGradientBytes = 4;

}  // namespace tributary::wire
