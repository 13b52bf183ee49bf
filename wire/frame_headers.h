// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the headers of frames: Ethernet II, IPv4 without options, IPv6 without extensions, UDP.
/// The ports, the virtual network's captures and the Tofino's packets use them.
///
/// Units:   Bytes, network order.
/// Errors:  None: a length that its field cannot hold is written as 0.
/// Threads: Pure functions.
/// Source:  IEEE 802.3, RFC 791, RFC 768, RFC 8200.
/// Tests:   tests/io/frames/udp_frame_test.cc, tests/net/pcap_test.cc,
///          tests/tofino/pipeline/udp_frame_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/endpoint.h"
#include "wire/headers.h"

namespace tributary::wire {

using MacAddress = std::array<uint8_t, 6>;

/// Time to live of sent packets. Source: RFC 1700, "recommended default".
inline constexpr uint8_t kHopLimit = 64;

/// Returns the MAC address of a multicast group (RFC 1112 §6.4, RFC 2464 §7).
[[nodiscard]] MacAddress multicast_mac(const Endpoint& group);

/// Writes an Ethernet header of 14 bytes.
void write_ethernet(std::byte* at, const MacAddress& destination, const MacAddress& source,
                    uint32_t ether_type);

/// Writes an IPv4 header of 20 bytes for `payload_bytes` of `protocol`: identification 0, don't
/// fragment, checksum set. Uses the endpoints' addresses and ignores their ports.
/// @param ecn The two ECN bits of RFC 3168.
void write_ipv4(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t protocol, uint8_t time_to_live, uint32_t payload_bytes, uint32_t ecn = 0);

/// Writes an IPv6 header of 40 bytes in the same way, with flow label 0.
void write_ipv6(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t next_header, uint8_t hop_limit, uint32_t payload_bytes, uint32_t ecn = 0);

/// Writes a UDP header of 8 bytes, checksum 0.
void write_udp(std::byte* at, uint16_t source_port, uint16_t destination_port,
               uint32_t payload_bytes);

/// Returns the sum over the pseudo header of UDP or ICMPv6 (RFC 768, RFC 8200 §8.1), not folded. It
/// is IPv4's if both endpoints are IPv4.
[[nodiscard]] uint64_t pseudo_header_sum(const Endpoint& source, const Endpoint& destination,
                                         uint32_t protocol, uint32_t payload_bytes);

/// Returns the checksum over a UDP header, whose checksum field is 0, and its payload.
/// @param payload_sum word_sum() of the payload.
[[nodiscard]] uint16_t udp_checksum(const std::byte* header, const Endpoint& source,
                                    const Endpoint& destination, uint32_t payload_bytes,
                                    uint16_t payload_sum);

}  // namespace tributary::wire
