// SPDX-License-Identifier: Apache-2.0
/// @file
/// Protocol headers as bit-field layouts, in the field order of their standards.
///
/// Sources: IEEE 802.3, RFC 791, RFC 8200, RFC 768; Trio-ML: Trio paper Figure 8. The extension
///          after the Trio-ML header is this project's own: docs/wire-format.md.
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
inline constexpr uint32_t kIpProtocolUdp = 17;

struct Ipv6Header {
  static constexpr uint32_t kBytes = 40;
  using Version = Field<kBytes, 0, 4>;
  using PayloadLength = Field<kBytes, 32, 16>;
  using NextHeader = Field<kBytes, 48, 8>;
  static constexpr uint32_t kSourceByte = 8;  ///< The source address: 16 bytes from here.
};

struct UdpHeader {
  static constexpr uint32_t kBytes = 8;
  using SourcePort = Field<kBytes, 0, 16>;
  using DestinationPort = Field<kBytes, 16, 16>;
  using Length = Field<kBytes, 32, 16>;  ///< Header and payload.
  using Checksum = Field<kBytes, 48, 16>;
};

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
