// SPDX-License-Identifier: Apache-2.0
/// @file
/// The frames that a port itself sends: answers to ARP, neighbour solicitation and ping, questions
/// for a neighbour's MAC address, and reports of multicast groups.
///
/// Shapes:  Whole frames without padding to 60 bytes; a network card adds the padding.
/// Threads: Pure functions.
/// Errors:  A function returns 0 bytes, and leaves `out` unspecified, if the message needs no
///          answer or `out` is too small.
/// Source:  RFC 826, 792, 4443, 4861, 2236, 2710.
/// Tests:   tests/io/frames/link_answers_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "io/frames/link_inspect.h"
#include "io/frames/neighbour_table.h"

namespace tributary::io {

/// Bytes of the largest frame of this file, except echo replies, which are as large as the request.
inline constexpr uint32_t kLinkFrameBytesMax = 128;

/// A neighbour's MAC address, as an ARP packet or an ICMPv6 message states it.
struct NeighbourAddress {
  Endpoint address;
  MacAddress mac{};
};

/// Writes the answer to an ARP request for our address.
[[nodiscard]] uint32_t answer_arp(std::span<const std::byte> request, const InspectedFrame& found,
                                  const LinkIdentity& identity, std::span<std::byte> out);
/// Returns the address that an ARP reply states.
[[nodiscard]] std::optional<NeighbourAddress> read_arp_reply(std::span<const std::byte> frame,
                                                             const InspectedFrame& found,
                                                             const LinkIdentity& identity);

/// Writes the answer to a ping over IPv4 or IPv6.
[[nodiscard]] uint32_t answer_echo(std::span<const std::byte> request, const InspectedFrame& found,
                                   const LinkIdentity& identity, std::span<std::byte> out);

/// Writes the answer to a neighbour solicitation for our address or our link-local address.
[[nodiscard]] uint32_t answer_solicitation(std::span<const std::byte> request,
                                           const InspectedFrame& found,
                                           const LinkIdentity& identity, std::span<std::byte> out);
/// Returns the address that a neighbour advertisement states.
[[nodiscard]] std::optional<NeighbourAddress> read_advertisement(std::span<const std::byte> frame,
                                                                 const InspectedFrame& found);

/// Writes an ARP request or a neighbour solicitation for `wanted`, which has our address family.
/// @param at The last known MAC address, to ask that neighbour alone; none to ask everybody.
[[nodiscard]] uint32_t write_question(const Endpoint& wanted, const std::optional<MacAddress>& at,
                                      const LinkIdentity& identity, std::span<std::byte> out);

enum class Membership : uint8_t { kReport, kLeave };
/// Writes an IGMPv2 or MLDv1 message about `group`, which later versions accept too.
[[nodiscard]] uint32_t write_membership(Membership what, const Endpoint& group,
                                        const LinkIdentity& identity, std::span<std::byte> out);

}  // namespace tributary::io
