// SPDX-License-Identifier: Apache-2.0
/// @file
/// The fields of a packet that the guard judges: addresses, ports and kind.
///
/// Model:   apps/flow_key.h reads the headers. A packet whose ports are not in its head, a fragment
///          after the first, and other protocols are of kind kOther; the guard judges their
///          addresses.
/// Errors:  Each defect has a name in apps::FlowFit. Every read lies in the packet's head.
/// Tests:   tests/apps/guard/packet_facts_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "apps/flow_key.h"
#include "microcode/machine.h"
#include "wire/headers.h"

namespace tributary::guard {

/// 16 bytes in network order; IPv4 mapped, as in Endpoint.
using Address = std::array<uint8_t, 16>;

/// The kinds of packets that have bandwidths of their own.
enum class PacketKind : uint8_t {
  kTcpSyn,  ///< A TCP segment with SYN and without ACK: opens a connection.
  kTcp,     ///< Any other TCP segment.
  kUdp,
  kIcmp,
  kOther,
};
inline constexpr uint32_t kKindCount = 5;

/// Returns "tcp_syn", "tcp" and so on.
[[nodiscard]] const char* to_string(PacketKind kind);

struct PacketFacts {
  Address source{};
  Address destination{};
  uint16_t source_port = 0;  ///< 0 for kinds without ports.
  uint16_t destination_port = 0;
  PacketKind kind = PacketKind::kOther;
  uint8_t ip_version = 0;  ///< 4 or 6: an IPv6 packet may hold a mapped address, too.
};

/// Returns the kind of a packet that is not a later fragment. @param tcp_flags Flags of a TCP
/// segment.
[[nodiscard]] inline PacketKind kind_of(uint32_t protocol, uint32_t tcp_flags) {
  switch (protocol) {
    case wire::kIpProtocolTcp: {
      const uint32_t flags = tcp_flags & (wire::kTcpSyn | wire::kTcpAck);
      return flags == wire::kTcpSyn ? PacketKind::kTcpSyn : PacketKind::kTcp;
    }
    case wire::kIpProtocolUdp:
      return PacketKind::kUdp;
    case wire::kIpProtocolIcmp:
    case wire::kIpProtocolIcmpv6:
      return PacketKind::kIcmp;
    default:
      return PacketKind::kOther;
  }
}

/// Tells whether the addresses of a packet were read, and so whether the guard can judge it.
[[nodiscard]] inline bool has_addresses(apps::FlowFit fit) {
  return fit == apps::FlowFit::kFits || fit == apps::FlowFit::kHeadersTooLong;
}

/// Takes the facts from a packet whose flow was read.
/// @param fit   The result of reading it.
/// @param facts Value-initialised; complete only if the packet fits.
/// @return kFits if the guard can judge the packet, else `fit`.
inline apps::FlowFit take_facts(const apps::FlowPacket& packet, apps::FlowFit fit,
                                PacketFacts& facts) {
  if (!has_addresses(fit)) return fit;
  facts.ip_version = packet.key.ip_version;
  facts.source = packet.key.source;
  facts.destination = packet.key.destination;
  if (fit == apps::FlowFit::kHeadersTooLong || packet.is_later_fragment)
    return apps::FlowFit::kFits;
  facts.kind = kind_of(packet.key.protocol, packet.tcp_flags);
  if (facts.kind != PacketKind::kIcmp && facts.kind != PacketKind::kOther) {
    facts.source_port = packet.key.source_port;
    facts.destination_port = packet.key.destination_port;
  }
  return apps::FlowFit::kFits;
}

/// Reads the machine's packet. @param facts, @return As take_facts().
template <microcode::Machine M>
apps::FlowFit read_packet(M& m, PacketFacts& facts) {
  if (!m.arrived_as_frame()) return apps::FlowFit::kNotFrame;
  apps::FlowPacket packet;
  const apps::FlowFit fit =
      apps::parse_flow(m.head(), m.packet_size(), apps::ThreadMarks<M>{m}, packet);
  return take_facts(packet, fit, facts);
}

}  // namespace tributary::guard
