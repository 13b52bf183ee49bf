// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a received frame is: a UDP payload for this port, something the port answers itself, or one
/// of the many things that are counted and dropped.
///
/// Model:   The checks of a host's receive path in the order of the layers: Ethernet, ARP or IP,
///          then UDP, ICMP or IGMP. Nothing is reassembled: whoever sends fragments or VLAN tags is
///          told so by a counter.
/// Threads: Pure functions.
/// Errors:  Every refusal is a FrameOutcome of its own; no frame can do more than be counted.
/// Source:  RFC 826, 791, 768, 792, 2236, 8200, 4443, 4861, 2710.
/// Tests:   tests/io/frames/link_inspect_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "io/frames/udp_frame.h"

namespace tributary::io {

/// What became of a frame. Every received frame is counted under exactly one of these.
enum class FrameOutcome : uint8_t {
  kDelivered,          ///< A UDP payload for this port.
  kArpAnswered,        ///< Somebody asked for our MAC address.
  kNeighbourAnswered,  ///< The same in IPv6.
  kEchoAnswered,       ///< A ping.
  kNeighbourLearned,   ///< The answer to a question of ours.
  kGroupQuery,         ///< A router asks who wants a multicast group.
  kLimited,            ///< To be answered, but too many came: see kAnswersPerSecond.
  kRunt,               ///< Ends before its headers do.
  kGiant,              ///< Larger than a receive buffer.
  kVlan,               ///< Carries a VLAN tag.
  kNotIp,              ///< Neither IPv4, IPv6 nor ARP.
  kNotOurs,            ///< Addressed to somebody else.
  kBadArp,             ///< An ARP packet for other networks, or with impossible fields.
  kBadIpHeader,        ///< Version or lengths do not fit.
  kBadIpChecksum,      ///< IPv4 header checksum.
  kIpOptions,          ///< UDP behind IPv4 options or IPv6 extension headers.
  kFragment,           ///< A part of a datagram.
  kBadSource,          ///< From a multicast address, from nobody, or from our own address.
  kNotUdp,             ///< A protocol that is not served.
  kBadUdpLength,       ///< UDP length outside the packet.
  kBadUdpChecksum,     ///< Damaged on the way, or without checksum over IPv6.
  kWrongPort,          ///< UDP, but to another port.
  kNotPeer,            ///< UDP from somebody else than the only peer of this port.
  kBadControl,         ///< ICMP, ICMPv6 or IGMP with a wrong checksum, or not for hosts.
  kCount,
};

/// Name in counters, as in "bad_udp_checksum".
[[nodiscard]] const char* to_string(FrameOutcome outcome);

/// Who a link is: one network card, or one end of a virtual wire.
struct LinkIdentity {
  MacAddress mac{};
  /// The port's IP address and UDP port.
  Endpoint local;
  uint32_t udp_ports = 1;  ///< Ports that are listened to, from local's on.
  /// Joined multicast groups; their ports are those that are listened to.
  std::span<const Endpoint> groups;
  /// The UDP checksum is not looked at. For wires whose other end leaves it to a network card that
  /// is not there, as the Linux kernel does on veth.
  bool trusts_udp_checksum = false;
};

/// What the network card has already verified.
struct VerifiedByHardware {
  bool ip_checksum = false;
  bool udp_checksum = false;
};

enum class FrameKind : uint8_t { kRefused, kUdp, kArp, kIcmp, kIcmpv6, kIgmp };

struct InspectedFrame {
  FrameKind kind = FrameKind::kRefused;
  FrameOutcome refusal = FrameOutcome::kCount;  ///< For kRefused.
  uint32_t offset = 0;  ///< Of the UDP payload, or of the ARP, ICMP or IGMP message.
  uint32_t size = 0;    ///< Of the same.
  Endpoint source;      ///< Port set for kUdp only. Unset for kArp.
  Endpoint destination;
};

/// Looks at a whole frame, as it came from the wire (padding allowed, no frame check sequence).
[[nodiscard]] InspectedFrame inspect_frame(std::span<const std::byte> frame,
                                           const LinkIdentity& identity,
                                           VerifiedByHardware verified);

/// The link-local IPv6 address of a MAC address (RFC 4291, appendix A).
[[nodiscard]] Endpoint link_local_address(const MacAddress& mac);
/// The group on which `address` is asked for (RFC 4291 §2.7.1).
[[nodiscard]] Endpoint solicited_node_group(const Endpoint& address);
/// The same address, whatever the ports.
[[nodiscard]] bool same_address(const Endpoint& a, const Endpoint& b);

}  // namespace tributary::io
