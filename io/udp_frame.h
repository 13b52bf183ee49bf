// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds an Ethernet frame with an IPv4 or IPv6 header and a UDP header around a payload.
///
/// Shapes:  Ethernet II 14 bytes, IPv4 20 (no options) or IPv6 40 (no extensions), UDP 8. No VLAN
///          tag, no padding to 60 bytes and no frame check sequence; a network card adds both.
/// Units:   Bytes, network order.
/// Threads: Pure functions.
/// Errors:  What does not fit returns 0 bytes.
/// Source:  RFC 791, RFC 768, RFC 8200.
/// Tests:   tests/io/udp_frame_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endpoint.h"
#include "base/internet_checksum.h"
#include "microcode/headers.h"

namespace tributary::io {

inline constexpr uint32_t kEthernetHeaderBytes = microcode::EthernetHeader::kBytes;
inline constexpr uint32_t kIpv4HeaderBytes = microcode::Ipv4Header::kBytes;
inline constexpr uint32_t kIpv6HeaderBytes = microcode::Ipv6Header::kBytes;
inline constexpr uint32_t kUdpHeaderBytes = microcode::UdpHeader::kBytes;
/// All headers before the payload.
inline constexpr uint32_t kUdpFrameHeaderBytesIpv4 =
    kEthernetHeaderBytes + kIpv4HeaderBytes + kUdpHeaderBytes;
inline constexpr uint32_t kUdpFrameHeaderBytesIpv6 =
    kEthernetHeaderBytes + kIpv6HeaderBytes + kUdpHeaderBytes;
static_assert(kUdpFrameHeaderBytesIpv4 == 42 && kUdpFrameHeaderBytesIpv6 == 62);

/// The bytes of an IPv4 address in Endpoint::address, behind the mapped prefix.
inline constexpr uint32_t kIpv4AddressAt = 12;

/// Time to live of what this program sends. Source: RFC 1700, "recommended default".
inline constexpr uint8_t kHopLimit = 64;

using MacAddress = std::array<uint8_t, 6>;

struct UdpFrameAddresses {
  MacAddress source_mac{};
  MacAddress destination_mac{};
  Endpoint source;
  Endpoint destination;
};

/// Who completes the UDP checksum.
enum class UdpChecksum : uint8_t {
  kComplete,      ///< It is in the frame.
  kPseudoHeader,  ///< The frame has the pseudo header's sum; the network card adds the rest.
  kNone,          ///< Nobody: IPv4 allows it, for bytes that never leave memory. IPv6: kComplete.
};

/// Writes headers and payload to the beginning of `frame`. IPv4: identification 0, don't fragment,
/// time to live 64, both checksums set. IPv6: hop limit 64, flow label 0, UDP checksum set.
///
/// @return bytes of the frame; 0, with `frame` untouched, when it does not fit, when the payload
///         exceeds 65,507 bytes, or when one address is IPv4 and the other IPv6.
[[nodiscard]] uint32_t build_udp_frame(const UdpFrameAddresses& addresses,
                                       std::span<const std::byte> payload,
                                       std::span<std::byte> frame);

/// Writes the headers alone, for a payload that lies elsewhere.
///
/// @param payload_sum word_sum() of the payload; looked at only when it is needed.
/// @return bytes of the headers; 0 as for build_udp_frame().
[[nodiscard]] uint32_t write_udp_frame_headers(const UdpFrameAddresses& addresses,
                                               uint32_t payload_bytes, uint16_t payload_sum,
                                               UdpChecksum checksum, std::span<std::byte> frame);

/// Writes an Ethernet header of 14 bytes.
void write_ethernet(std::byte* at, const MacAddress& destination, const MacAddress& source,
                    uint32_t ether_type);

/// Writes an IPv4 header of 20 bytes around `payload_bytes` of `protocol`, checksum set; addresses
/// as in `addresses`, whose ports play no part.
void write_ipv4(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t protocol, uint8_t time_to_live, uint32_t payload_bytes);

/// The same for IPv6, 40 bytes.
void write_ipv6(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t next_header, uint8_t hop_limit, uint32_t payload_bytes);

/// The sum of the pseudo header in front of UDP or ICMPv6 (RFC 768, RFC 8200 §8.1), not folded. The
/// family is that of `source`.
[[nodiscard]] uint64_t pseudo_header_sum(const Endpoint& source, const Endpoint& destination,
                                         uint32_t protocol, uint32_t payload_bytes);

}  // namespace tributary::io
