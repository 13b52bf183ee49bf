// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds an Ethernet frame with an IPv4 or IPv6 header and a UDP header around a payload.
///
/// Shapes:  Ethernet II 14 bytes, IPv4 20 (no options) or IPv6 40 (no extensions), UDP 8. No VLAN
///          tag, no padding to 60 bytes and no frame check sequence; a network card adds both.
/// Units:   Bytes, network order.
/// Threads: Pure functions.
/// Errors:  What does not fit returns 0 bytes.
/// Source:  RFC 791, RFC 768, RFC 8200, RFC 1071 (checksum).
/// Tests:   tests/io/udp_frame_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endpoint.h"

namespace tributary::io {

inline constexpr uint32_t kEthernetHeaderBytes = 14;
inline constexpr uint32_t kIpv4HeaderBytes = 20;
inline constexpr uint32_t kIpv6HeaderBytes = 40;
inline constexpr uint32_t kUdpHeaderBytes = 8;
/// All headers before the payload.
inline constexpr uint32_t kUdpFrameHeaderBytesIpv4 =
    kEthernetHeaderBytes + kIpv4HeaderBytes + kUdpHeaderBytes;
inline constexpr uint32_t kUdpFrameHeaderBytesIpv6 =
    kEthernetHeaderBytes + kIpv6HeaderBytes + kUdpHeaderBytes;
static_assert(kUdpFrameHeaderBytesIpv4 == 42 && kUdpFrameHeaderBytesIpv6 == 62);

using MacAddress = std::array<uint8_t, 6>;

struct UdpFrameAddresses {
  MacAddress source_mac{};
  MacAddress destination_mac{};
  Endpoint source;
  Endpoint destination;
};

/// Writes headers and payload to the beginning of `frame`. IPv4: identification 0, don't fragment,
/// time to live 64, both checksums set. IPv6: hop limit 64, flow label 0, UDP checksum set.
///
/// @return bytes of the frame; 0, with `frame` untouched, when it does not fit, when the payload
///         exceeds 65,507 bytes, or when one address is IPv4 and the other IPv6.
[[nodiscard]] uint32_t build_udp_frame(const UdpFrameAddresses& addresses,
                                       std::span<const std::byte> payload,
                                       std::span<std::byte> frame);

/// The Internet checksum (RFC 1071): one's complement of the one's complement sum of big-endian
/// 16-bit words, an odd last byte padded with 0. `initial` is added first, as from a pseudo header.
[[nodiscard]] uint16_t internet_checksum(std::span<const std::byte> bytes, uint64_t initial = 0);

}  // namespace tributary::io
