// SPDX-License-Identifier: Apache-2.0
/// @file
/// The frames that a port sends on its own account: answers to ARP, neighbour solicitation and
/// ping, questions for a neighbour's MAC address, and reports about multicast groups.
///
/// Shapes:  Whole frames without padding to 60 bytes; a network card adds it.
/// Threads: Pure functions.
/// Errors:  0 bytes, with `out` unspecified, when a message is not one that is answered or `out` is
///          too small.
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

/// Room that every frame of this file fits but an echo reply, which is as large as its request.
inline constexpr uint32_t kLinkFrameBytesMax = 128;

/// What an ARP packet or ICMPv6 message says about somebody's MAC address.
struct NeighbourNews {
  Endpoint address;
  MacAddress mac{};
};

/// The answer to an ARP request for our address.
[[nodiscard]] uint32_t answer_arp(std::span<const std::byte> request, const InspectedFrame& found,
                                  const LinkIdentity& identity, std::span<std::byte> out);
/// What an ARP reply says.
[[nodiscard]] std::optional<NeighbourNews> read_arp_reply(std::span<const std::byte> frame,
                                                          const InspectedFrame& found,
                                                          const LinkIdentity& identity);

/// The answer to a ping in IPv4 or IPv6.
[[nodiscard]] uint32_t answer_echo(std::span<const std::byte> request, const InspectedFrame& found,
                                   const LinkIdentity& identity, std::span<std::byte> out);

/// The answer to a neighbour solicitation for our address or our link-local one.
[[nodiscard]] uint32_t answer_solicitation(std::span<const std::byte> request,
                                           const InspectedFrame& found,
                                           const LinkIdentity& identity, std::span<std::byte> out);
/// What a neighbour advertisement says.
[[nodiscard]] std::optional<NeighbourNews> read_advertisement(std::span<const std::byte> frame,
                                                              const InspectedFrame& found);

/// An ARP request or a neighbour solicitation for `wanted`, of our address's family. @param at
/// Where it was last heard of, to ask it alone; else everybody is asked.
[[nodiscard]] uint32_t write_question(const Endpoint& wanted, const std::optional<MacAddress>& at,
                                      const LinkIdentity& identity, std::span<std::byte> out);

enum class Membership : uint8_t { kReport, kLeave };
/// An IGMPv2 or MLDv1 message about `group`. Routers and switches of later versions take both.
[[nodiscard]] uint32_t write_membership(Membership what, const Endpoint& group,
                                        const LinkIdentity& identity, std::span<std::byte> out);

}  // namespace tributary::io
