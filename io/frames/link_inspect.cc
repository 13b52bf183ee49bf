// SPDX-License-Identifier: Apache-2.0
#include "io/frames/link_inspect.h"

#include <algorithm>
#include <cstring>

#include "base/byte_order.h"
#include "base/endpoint.h"
#include "io/frames/link_headers.h"

namespace tributary::io {
namespace {

using wire::Ipv4Header;
using wire::Ipv6Header;
using Ethernet = wire::EthernetHeader;
using Udp = wire::UdpHeader;

InspectedFrame refused(FrameOutcome outcome) {
  InspectedFrame frame;
  frame.refusal = outcome;
  return frame;
}

bool is_unspecified(const Endpoint& endpoint) {
  const auto begin = endpoint.address.begin() + (endpoint.is_ipv4() ? kMappedPrefixBytes : 0);
  return std::all_of(begin, endpoint.address.end(), [](uint8_t byte) { return byte == 0; });
}

/// Returns true for 224.0.0.1 and ff02::1, the groups of all hosts on the link.
bool is_all_hosts(const Endpoint& endpoint) {
  static const Endpoint all_ipv4 = Endpoint::ipv4(0xe0000001, 0);
  Endpoint all_ipv6;
  all_ipv6.address = {0xff, 0x02};
  all_ipv6.address[15] = 1;
  return same_address(endpoint, all_ipv4) || same_address(endpoint, all_ipv6);
}

bool is_joined(const Endpoint& group, const LinkIdentity& identity) {
  return std::any_of(identity.groups.begin(), identity.groups.end(),
                     [&group](const Endpoint& joined) { return same_address(joined, group); });
}

/// Returns true if UDP to this address is for us.
bool is_for_us(const Endpoint& destination, const LinkIdentity& identity) {
  return same_address(destination, identity.local) || is_joined(destination, identity);
}

bool is_for_our_mac(std::span<const std::byte> frame, const MacAddress& mac) {
  // The lowest bit of the first byte means broadcast or multicast; the IP address decides then.
  if ((std::to_integer<uint8_t>(frame[0]) & 1) != 0) return true;
  return std::memcmp(frame.data(), mac.data(), mac.size()) == 0;
}

/// Checks the UDP datagram that `found` holds as a message.
InspectedFrame inspect_udp(std::span<const std::byte> frame, InspectedFrame found,
                           const LinkIdentity& identity, VerifiedByHardware verified) {
  if (found.size < Udp::kBytes) return refused(FrameOutcome::kBadUdpLength);
  const std::byte* udp = frame.data() + found.offset;
  const uint32_t udp_bytes = Udp::Length::load(udp);
  if (udp_bytes < Udp::kBytes || udp_bytes > found.size) {
    return refused(FrameOutcome::kBadUdpLength);
  }
  const bool has_checksum = Udp::Checksum::load(udp) != 0;
  if (!identity.trusts_udp_checksum) {
    if (!has_checksum && !found.source.is_ipv4()) return refused(FrameOutcome::kBadUdpChecksum);
    if (has_checksum && !verified.udp_checksum) {
      const uint64_t pseudo =
          pseudo_header_sum(found.source, found.destination, wire::kIpProtocolUdp, udp_bytes);
      if (internet_checksum({udp, udp_bytes}, pseudo) != 0) {
        return refused(FrameOutcome::kBadUdpChecksum);
      }
    }
  }
  found.source.port = static_cast<uint16_t>(Udp::SourcePort::load(udp));
  found.destination.port = static_cast<uint16_t>(Udp::DestinationPort::load(udp));
  const bool listened = found.destination.is_multicast()
                            ? std::find(identity.groups.begin(), identity.groups.end(),
                                        found.destination) != identity.groups.end()
                            : found.destination.port >= identity.local.port &&
                                  found.destination.port - identity.local.port <
                                      static_cast<int32_t>(identity.udp_ports);
  if (!listened || found.source.port == 0) return refused(FrameOutcome::kWrongPort);
  found.kind = FrameKind::kUdp;
  found.offset += Udp::kBytes;
  found.size = udp_bytes - Udp::kBytes;
  return found;
}

/// Checks the checksum of an ICMP, ICMPv6 or IGMP message; other checks follow elsewhere.
InspectedFrame inspect_control(std::span<const std::byte> frame, InspectedFrame found,
                               FrameKind kind, uint64_t pseudo_sum) {
  if (found.size < ControlHeader::kBytes ||
      internet_checksum(frame.subspan(found.offset, found.size), pseudo_sum) != 0) {
    return refused(FrameOutcome::kBadControl);
  }
  found.kind = kind;
  return found;
}

InspectedFrame inspect_ipv4(std::span<const std::byte> frame, const LinkIdentity& identity,
                            VerifiedByHardware verified) {
  using H = Ipv4Header;
  if (frame.size() < Ethernet::kBytes + H::kBytes) return refused(FrameOutcome::kRunt);
  const std::byte* ip = frame.data() + Ethernet::kBytes;
  const uint32_t header_bytes = H::HeaderWords::load(ip) * 4;
  const uint32_t total_bytes = H::TotalLength::load(ip);
  if (H::Version::load(ip) != 4 || header_bytes < H::kBytes || total_bytes < header_bytes ||
      Ethernet::kBytes + total_bytes > frame.size()) {
    return refused(FrameOutcome::kBadIpHeader);
  }
  const bool absent = identity.allows_no_ip_checksum && H::HeaderChecksum::load(ip) == 0;
  if (!verified.ip_checksum && !absent && internet_checksum({ip, header_bytes}) != 0) {
    return refused(FrameOutcome::kBadIpChecksum);
  }
  InspectedFrame found;
  found.source = Endpoint::ipv4(H::SourceAddress::load(ip), 0);
  found.destination = Endpoint::ipv4(H::DestinationAddress::load(ip), 0);
  const uint32_t protocol = H::Protocol::load(ip);
  const bool to_all = protocol == kIpProtocolIgmp && is_all_hosts(found.destination);
  if (!to_all && !is_for_us(found.destination, identity)) return refused(FrameOutcome::kNotOurs);
  if (H::MoreFragments::load(ip) != 0 || H::FragmentOffset::load(ip) != 0) {
    return refused(FrameOutcome::kFragment);
  }
  // A router without an address may send group queries from 0.0.0.0 (RFC 4541 §2.1.1).
  if (found.source.is_multicast() || same_address(found.source, identity.local) ||
      (is_unspecified(found.source) && protocol != kIpProtocolIgmp)) {
    return refused(FrameOutcome::kBadSource);
  }
  found.offset = Ethernet::kBytes + header_bytes;
  found.size = total_bytes - header_bytes;
  switch (protocol) {
    case wire::kIpProtocolUdp:
      if (header_bytes != H::kBytes) return refused(FrameOutcome::kIpOptions);
      return inspect_udp(frame, found, identity, verified);
    case kIpProtocolIcmp:
      return inspect_control(frame, found, FrameKind::kIcmp, 0);
    case kIpProtocolIgmp:
      return inspect_control(frame, found, FrameKind::kIgmp, 0);
    default:
      return refused(FrameOutcome::kNotUdp);
  }
}

/// Skips eight bytes of hop-by-hop options, the only extension header that multicast queries carry.
/// @return the protocol after the header.
uint32_t skip_hop_by_hop(std::span<const std::byte> frame, InspectedFrame& found) {
  constexpr uint32_t kBytes = 8;
  if (found.size < kBytes || frame[found.offset + 1] != std::byte{0}) return kIpProtocolHopByHop;
  const auto protocol = std::to_integer<uint32_t>(frame[found.offset]);
  found.offset += kBytes;
  found.size -= kBytes;
  return protocol;
}

InspectedFrame inspect_ipv6(std::span<const std::byte> frame, const LinkIdentity& identity,
                            VerifiedByHardware verified) {
  using H = Ipv6Header;
  if (frame.size() < Ethernet::kBytes + H::kBytes) return refused(FrameOutcome::kRunt);
  const std::byte* ip = frame.data() + Ethernet::kBytes;
  InspectedFrame found;
  found.offset = Ethernet::kBytes + H::kBytes;
  found.size = H::PayloadLength::load(ip);
  if (H::Version::load(ip) != 6 || found.offset + found.size > frame.size()) {
    return refused(FrameOutcome::kBadIpHeader);
  }
  // A port with an IPv4 address is not an IPv6 host and has no link-local address. Otherwise it
  // would tell the kernel at the other end of a tap device, which has the same MAC, that the
  // kernel's own address is taken.
  if (identity.local.is_ipv4()) return refused(FrameOutcome::kNotOurs);
  std::memcpy(found.source.address.data(), ip + H::kSourceByte, 16);
  std::memcpy(found.destination.address.data(), ip + H::kSourceByte + 16, 16);
  // An Endpoint stores an IPv4 address as ::ffff:a.b.c.d. In an IPv6 header it is invalid.
  if (found.destination.is_ipv4()) return refused(FrameOutcome::kNotOurs);
  if (found.source.is_ipv4()) return refused(FrameOutcome::kBadSource);
  const Endpoint link_local = link_local_address(identity.mac);
  const bool ours =
      is_for_us(found.destination, identity) || same_address(found.destination, link_local);
  const bool ours_to_answer =
      ours || is_all_hosts(found.destination) ||
      same_address(found.destination, solicited_node_group(identity.local)) ||
      same_address(found.destination, solicited_node_group(link_local));
  if (!ours_to_answer) return refused(FrameOutcome::kNotOurs);
  uint32_t protocol = H::NextHeader::load(ip);
  const bool has_options = protocol == kIpProtocolHopByHop;
  if (has_options) protocol = skip_hop_by_hop(frame, found);
  if (protocol == kIpProtocolFragment) return refused(FrameOutcome::kFragment);
  // A node that checks whether an address is free sends from the unspecified address (RFC 4861
  // §4.3).
  if (found.source.is_multicast() || same_address(found.source, identity.local) ||
      (is_unspecified(found.source) && protocol != kIpProtocolIcmpv6)) {
    return refused(FrameOutcome::kBadSource);
  }
  switch (protocol) {
    case wire::kIpProtocolUdp:
      if (!is_for_us(found.destination, identity)) return refused(FrameOutcome::kNotOurs);
      if (has_options) return refused(FrameOutcome::kIpOptions);
      return inspect_udp(frame, found, identity, verified);
    case kIpProtocolIcmpv6:
      return inspect_control(
          frame, found, FrameKind::kIcmpv6,
          pseudo_header_sum(found.source, found.destination, protocol, found.size));
    case kIpProtocolHopByHop:
      return refused(FrameOutcome::kIpOptions);
    default:
      return refused(FrameOutcome::kNotUdp);
  }
}

InspectedFrame inspect_arp(std::span<const std::byte> frame) {
  using H = ArpHeader;
  if (frame.size() < Ethernet::kBytes + H::kBytes) return refused(FrameOutcome::kRunt);
  const std::byte* arp = frame.data() + Ethernet::kBytes;
  if (H::HardwareType::load(arp) != H::kEthernet ||
      H::ProtocolType::load(arp) != wire::kEtherTypeIpv4 ||
      H::AddressLengths::load(arp) != H::kLengths) {
    return refused(FrameOutcome::kBadArp);
  }
  InspectedFrame found;
  found.kind = FrameKind::kArp;
  found.offset = Ethernet::kBytes;
  found.size = H::kBytes;
  return found;
}

constexpr std::array<const char*, static_cast<size_t>(FrameOutcome::kCount)> kNames{
    "delivered",
    "arp_answered",
    "neighbour_answered",
    "echo_answered",
    "neighbour_learned",
    "group_query",
    "limited",
    "runt",
    "giant",
    "vlan",
    "not_ip",
    "not_ours",
    "bad_arp",
    "bad_ip_header",
    "bad_ip_checksum",
    "ip_options",
    "fragment",
    "bad_source",
    "not_udp",
    "bad_udp_length",
    "bad_udp_checksum",
    "wrong_port",
    "not_peer",
    "bad_control"};

}  // namespace

const char* to_string(FrameOutcome outcome) {
  const auto index = static_cast<size_t>(outcome);
  return index < kNames.size() ? kNames[index] : "";
}

InspectedFrame inspect_frame(std::span<const std::byte> frame, const LinkIdentity& identity,
                             VerifiedByHardware verified) {
  if (frame.size() < Ethernet::kBytes) return refused(FrameOutcome::kRunt);
  if (!is_for_our_mac(frame, identity.mac)) return refused(FrameOutcome::kNotOurs);
  switch (Ethernet::EtherType::load(frame.data())) {
    case wire::kEtherTypeIpv4:
      return inspect_ipv4(frame, identity, verified);
    case wire::kEtherTypeIpv6:
      return inspect_ipv6(frame, identity, verified);
    case kEtherTypeArp:
      return inspect_arp(frame);
    case kEtherTypeVlan:
    case kEtherTypeServiceVlan:
    case kEtherTypeOldVlan:
      return refused(FrameOutcome::kVlan);
    default:
      return refused(FrameOutcome::kNotIp);
  }
}

Endpoint link_local_address(const MacAddress& mac) {
  Endpoint endpoint;
  endpoint.address = {
      0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2),
      mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return endpoint;
}

Endpoint solicited_node_group(const Endpoint& address) {
  Endpoint group;
  group.address = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy(address.address.begin() + 13, address.address.end(), group.address.begin() + 13);
  return group;
}

bool same_address(const Endpoint& a, const Endpoint& b) {
  return std::memcmp(a.address.data(), b.address.data(), a.address.size()) == 0;
}

}  // namespace tributary::io
