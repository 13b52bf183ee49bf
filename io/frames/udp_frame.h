// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds an Ethernet frame with an IPv4 or IPv6 header and a UDP header around a payload, using
/// the headers of wire/frame_headers.h.
///
/// Shapes:  Ethernet II 14 bytes, IPv4 20 (no options) or IPv6 40 (no extensions), UDP 8. No VLAN
///          tag. A network card adds padding to 60 bytes and the frame check sequence.
/// Units:   Bytes, network order.
/// Threads: Pure functions.
/// Errors:  A function returns 0 bytes if the frame does not fit.
/// Source:  RFC 791, RFC 768, RFC 8200.
/// Tests:   tests/io/frames/udp_frame_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endpoint.h"
#include "base/internet_checksum.h"
#include "wire/frame_headers.h"
#include "wire/headers.h"

namespace tributary::io {

inline constexpr uint32_t kEthernetHeaderBytes = wire::EthernetHeader::kBytes;
inline constexpr uint32_t kIpv4HeaderBytes = wire::Ipv4Header::kBytes;
inline constexpr uint32_t kIpv6HeaderBytes = wire::Ipv6Header::kBytes;
inline constexpr uint32_t kUdpHeaderBytes = wire::UdpHeader::kBytes;
/// Bytes of all headers before the payload.
inline constexpr uint32_t kUdpFrameHeaderBytesIpv4 =
    kEthernetHeaderBytes + kIpv4HeaderBytes + kUdpHeaderBytes;
inline constexpr uint32_t kUdpFrameHeaderBytesIpv6 =
    kEthernetHeaderBytes + kIpv6HeaderBytes + kUdpHeaderBytes;
static_assert(kUdpFrameHeaderBytesIpv4 == 42 && kUdpFrameHeaderBytesIpv6 == 62);

using wire::kHopLimit;
using wire::MacAddress;
using wire::multicast_mac;
using wire::pseudo_header_sum;
using wire::write_ethernet;
using wire::write_ipv4;
using wire::write_ipv6;

struct UdpFrameAddresses {
  MacAddress source_mac{};
  MacAddress destination_mac{};
  Endpoint source;
  Endpoint destination;
};

/// How the UDP checksum is completed.
enum class UdpChecksum : uint8_t {
  kComplete,      ///< The frame has the full checksum.
  kPseudoHeader,  ///< The frame has the pseudo header's sum; the network card adds the rest.
  kNone,          ///< No checksum. IPv4 only, for bytes that never leave memory; IPv6: kComplete.
};

/// Writes headers and payload to the beginning of `frame`. IPv4: identification 0, don't fragment,
/// time to live 64, both checksums set. IPv6: hop limit 64, flow label 0, UDP checksum set.
///
/// @return bytes of the frame. Returns 0 and leaves `frame` unchanged if it does not fit, if the
///         payload exceeds 65,507 bytes, or if one address is IPv4 and the other IPv6.
[[nodiscard]] uint32_t build_udp_frame(const UdpFrameAddresses& addresses,
                                       std::span<const std::byte> payload,
                                       std::span<std::byte> frame);

/// Writes only the headers, for a payload in another buffer.
///
/// @param payload_sum word_sum() of the payload; read only if it is needed.
/// @return bytes of the headers; 0 as for build_udp_frame().
[[nodiscard]] uint32_t write_udp_frame_headers(const UdpFrameAddresses& addresses,
                                               uint32_t payload_bytes, uint16_t payload_sum,
                                               UdpChecksum checksum, std::span<std::byte> frame);

}  // namespace tributary::io
