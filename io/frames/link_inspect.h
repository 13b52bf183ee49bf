// SPDX-License-Identifier: Apache-2.0
/// @file
/// Classifies a received frame: a UDP payload for this port, a message that the port answers
/// itself, or a frame that is counted and dropped.
///
/// Model:   The checks of a host's receive path, layer by layer: Ethernet, ARP or IP, then UDP,
///          ICMP or IGMP. Nothing is reassembled; a counter reports fragments and VLAN tags.
/// Threads: Pure functions.
/// Errors:  Each refusal has its own FrameOutcome. A bad frame is counted and has no other effect.
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

/// The outcome of a frame. Each received frame is counted under exactly one outcome.
enum class FrameOutcome : uint8_t {
  kDelivered,          ///< A UDP payload for this port.
  kArpAnswered,        ///< An ARP request for our MAC address.
  kNeighbourAnswered,  ///< An IPv6 neighbour solicitation for our MAC address.
  kEchoAnswered,       ///< A ping.
  kNeighbourLearned,   ///< The answer to one of our questions.
  kGroupQuery,         ///< A router's query for members of multicast groups.
  kLimited,            ///< Needs an answer, but exceeds kAnswersPerSecond.
  kRunt,               ///< Ends before its headers do.
  kGiant,              ///< Larger than a receive buffer.
  kVlan,               ///< Carries a VLAN tag.
  kNotIp,              ///< Neither IPv4, IPv6 nor ARP.
  kNotOurs,            ///< Addressed to another host.
  kBadArp,             ///< An ARP packet for other networks, or with impossible fields.
  kBadIpHeader,        ///< Wrong version or lengths.
  kBadIpChecksum,      ///< Wrong IPv4 header checksum.
  kIpOptions,          ///< UDP behind IPv4 options or IPv6 extension headers.
  kFragment,           ///< A fragment of a datagram.
  kBadSource,          ///< From a multicast address, no address, or our own address.
  kNotUdp,             ///< A protocol that the port does not serve.
  kBadUdpLength,       ///< UDP length outside the packet.
  kBadUdpChecksum,     ///< Damaged on the way, or IPv6 without a checksum.
  kWrongPort,          ///< UDP to another port.
  kNotPeer,            ///< UDP from a sender other than the port's only peer.
  kBadControl,         ///< ICMP, ICMPv6 or IGMP with a wrong checksum, or not for hosts.
  kCount,
};

/// Returns the outcome's name in counters, as in "bad_udp_checksum".
[[nodiscard]] const char* to_string(FrameOutcome outcome);

/// The addresses of a link: of one network card, or of one end of a virtual wire.
struct LinkIdentity {
  MacAddress mac{};
  /// The port's IP address and UDP port.
  Endpoint local;
  uint32_t udp_ports = 1;  ///< Number of ports to listen to, from local's on.
  /// Joined multicast groups, each with its port.
  std::span<const Endpoint> groups;
  /// If set, UDP checksums are not verified. Set it for wires whose other end leaves checksums to a
  /// network card that does not exist, as the Linux kernel does on veth.
  bool trusts_udp_checksum = false;
  /// If set, an IPv4 header checksum of 0 counts as absent.
  bool allows_no_ip_checksum = false;
};

/// The checksums that the network card has already verified.
struct VerifiedByHardware {
  bool ip_checksum = false;
  bool udp_checksum = false;
};

enum class FrameKind : uint8_t { kRefused, kUdp, kArp, kIcmp, kIcmpv6, kIgmp };

struct InspectedFrame {
  FrameKind kind = FrameKind::kRefused;
  FrameOutcome refusal = FrameOutcome::kCount;  ///< For kRefused.
  uint32_t offset = 0;  ///< Offset of the UDP payload, or of the ARP, ICMP or IGMP message.
  uint32_t size = 0;    ///< Bytes of the same.
  Endpoint source;      ///< Port set for kUdp only. Unset for kArp.
  Endpoint destination;
};

/// Inspects a whole frame from the wire (with or without padding, without frame check sequence).
[[nodiscard]] InspectedFrame inspect_frame(std::span<const std::byte> frame,
                                           const LinkIdentity& identity,
                                           VerifiedByHardware verified);

/// Returns the link-local IPv6 address of a MAC address (RFC 4291, appendix A).
[[nodiscard]] Endpoint link_local_address(const MacAddress& mac);
/// Returns the group to which solicitations for `address` are sent (RFC 4291 §2.7.1).
[[nodiscard]] Endpoint solicited_node_group(const Endpoint& address);
/// Returns true if the addresses are equal; ignores the ports.
[[nodiscard]] bool same_address(const Endpoint& a, const Endpoint& b);

}  // namespace tributary::io
