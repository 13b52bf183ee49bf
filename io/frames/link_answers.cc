// SPDX-License-Identifier: Apache-2.0
#include "io/frames/link_answers.h"

#include <cstring>

#include "base/byte_order.h"
#include "base/endpoint.h"
#include "io/frames/link_headers.h"

namespace tributary::io {
namespace {

using Ethernet = wire::EthernetHeader;

constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr uint32_t kSourceMacAt = 6;
/// Hop limit of a query or report: it crosses no router (RFC 2236 §2, RFC 2710 §3).
constexpr uint8_t kOneLink = 1;
/// IPv4 option "router alert" (RFC 2113): routers inspect the packet.
constexpr uint32_t kRouterAlertIpv4 = 0x94040000;
constexpr uint32_t kIgmpIpBytes = wire::Ipv4Header::kBytes + 4;
/// Hop-by-hop header with the router alert option (RFC 2711) and two bytes of padding.
constexpr uint32_t kHopByHopBytes = 8;
constexpr uint32_t kRouterAlertIpv6 = 0x05020000;
constexpr uint16_t kPadTwo = 0x0100;

MacAddress mac_at(std::span<const std::byte> frame, uint32_t offset) {
  MacAddress mac;
  std::memcpy(mac.data(), frame.data() + offset, mac.size());
  return mac;
}

Endpoint ipv6_at(const std::byte* bytes) {
  Endpoint endpoint;
  std::memcpy(endpoint.address.data(), bytes, endpoint.address.size());
  return endpoint;
}

bool is_individual(const MacAddress& mac) { return (mac[0] & 1) == 0; }

void write_arp(std::byte* frame, const MacAddress& to, const LinkIdentity& identity,
               uint32_t operation, const MacAddress& target_mac, uint32_t target_address) {
  using H = ArpHeader;
  write_ethernet(frame, to, identity.mac, kEtherTypeArp);
  std::byte* arp = frame + Ethernet::kBytes;
  H::HardwareType::store(arp, H::kEthernet);
  H::ProtocolType::store(arp, wire::kEtherTypeIpv4);
  H::AddressLengths::store(arp, H::kLengths);
  H::Operation::store(arp, operation);
  std::memcpy(arp + H::kSenderMacByte, identity.mac.data(), 6);
  H::SenderAddress::store(arp, identity.local.ipv4_address());
  std::memcpy(arp + H::kTargetMacByte, target_mac.data(), 6);
  H::TargetAddress::store(arp, target_address);
}

/// Stores the checksum of a control message of `size` bytes.
void seal(std::byte* message, uint32_t size, uint64_t pseudo_sum) {
  ControlHeader::Checksum::store(message, 0);
  ControlHeader::Checksum::store(message, internet_checksum({message, size}, pseudo_sum));
}

/// Writes a neighbour message: control header, target, one option with our MAC. @return frame
/// bytes.
uint32_t write_neighbour_message(const LinkIdentity& identity, const MacAddress& to_mac,
                                 const Endpoint& from, const Endpoint& to, uint32_t type,
                                 uint32_t flags, const Endpoint& target, uint32_t option,
                                 std::span<std::byte> out) {
  constexpr uint32_t kMessageBytes = kTargetedBytes + kLinkOptionBytes;
  constexpr uint32_t kFrameBytes = Ethernet::kBytes + kIpv6HeaderBytes + kMessageBytes;
  if (out.size() < kFrameBytes) return 0;
  write_ethernet(out.data(), to_mac, identity.mac, wire::kEtherTypeIpv6);
  write_ipv6(out.data() + Ethernet::kBytes, from, to, kIpProtocolIcmpv6, kNeighbourHopLimit,
             kMessageBytes);
  std::byte* message = out.data() + Ethernet::kBytes + kIpv6HeaderBytes;
  std::memset(message, 0, kMessageBytes);
  ControlHeader::Type::store(message, type);
  ControlHeader::Rest::store(message, flags);
  std::memcpy(message + kTargetAtByte, target.address.data(), 16);
  message[kTargetedBytes] = static_cast<std::byte>(option);
  message[kTargetedBytes + 1] = std::byte{1};  // In units of eight bytes.
  std::memcpy(message + kTargetedBytes + 2, identity.mac.data(), 6);
  seal(message, kMessageBytes, pseudo_header_sum(from, to, kIpProtocolIcmpv6, kMessageBytes));
  return kFrameBytes;
}

/// Returns the MAC address in the neighbour message's option of this type, if there is one.
std::optional<MacAddress> link_option(std::span<const std::byte> message, uint32_t type) {
  for (size_t at = kTargetedBytes; at + kLinkOptionBytes <= message.size();) {
    const size_t bytes = std::to_integer<size_t>(message[at + 1]) * 8;
    if (bytes == 0) return std::nullopt;  // RFC 4861 §4.6: discard.
    if (std::to_integer<uint32_t>(message[at]) == type) {
      return mac_at(message, static_cast<uint32_t>(at + 2));
    }
    at += bytes;
  }
  return std::nullopt;
}

bool came_from_this_link(std::span<const std::byte> frame) {
  return std::to_integer<uint8_t>(frame[Ethernet::kBytes + 7]) == kNeighbourHopLimit;
}

uint32_t write_igmp(Membership what, const Endpoint& group, const LinkIdentity& identity,
                    std::span<std::byte> out) {
  constexpr uint32_t kFrameBytes = Ethernet::kBytes + kIgmpIpBytes + ControlHeader::kBytes;
  if (out.size() < kFrameBytes) return 0;
  const Endpoint to = what == Membership::kReport ? group : Endpoint::ipv4(0xe0000002, 0);
  write_ethernet(out.data(), multicast_mac(to), identity.mac, wire::kEtherTypeIpv4);
  std::byte* ip = out.data() + Ethernet::kBytes;
  write_ipv4(ip, identity.local, to, kIpProtocolIgmp, kOneLink, 4 + ControlHeader::kBytes);
  wire::Ipv4Header::HeaderWords::store(ip, kIgmpIpBytes / 4);
  store_be<uint32_t>(ip + kIpv4HeaderBytes, kRouterAlertIpv4);
  wire::Ipv4Header::HeaderChecksum::store(ip, 0);
  wire::Ipv4Header::HeaderChecksum::store(ip, internet_checksum({ip, kIgmpIpBytes}));
  std::byte* message = ip + kIgmpIpBytes;
  std::memset(message, 0, ControlHeader::kBytes);
  ControlHeader::Type::store(message, what == Membership::kReport ? kIgmpReport : kIgmpLeave);
  ControlHeader::Rest::store(message, group.ipv4_address());
  seal(message, ControlHeader::kBytes, 0);
  return kFrameBytes;
}

uint32_t write_mld(Membership what, const Endpoint& group, const LinkIdentity& identity,
                   std::span<std::byte> out) {
  constexpr uint32_t kFrameBytes =
      Ethernet::kBytes + kIpv6HeaderBytes + kHopByHopBytes + kTargetedBytes;
  if (out.size() < kFrameBytes) return 0;
  Endpoint to = group;
  if (what == Membership::kLeave) {
    to.address = {0xff, 0x02};
    to.address[15] = 2;  // All routers.
  }
  const Endpoint from = link_local_address(identity.mac);
  write_ethernet(out.data(), multicast_mac(to), identity.mac, wire::kEtherTypeIpv6);
  std::byte* ip = out.data() + Ethernet::kBytes;
  write_ipv6(ip, from, to, kIpProtocolHopByHop, kOneLink, kHopByHopBytes + kTargetedBytes);
  std::byte* options = ip + kIpv6HeaderBytes;
  store_be<uint16_t>(options, kIpProtocolIcmpv6 << 8);  // Next header; length 0 is 8 bytes.
  store_be<uint32_t>(options + 2, kRouterAlertIpv6);
  store_be<uint16_t>(options + 6, kPadTwo);
  std::byte* message = options + kHopByHopBytes;
  std::memset(message, 0, kTargetedBytes);
  ControlHeader::Type::store(message, what == Membership::kReport ? kMldReport : kMldDone);
  std::memcpy(message + kTargetAtByte, group.address.data(), 16);
  seal(message, kTargetedBytes, pseudo_header_sum(from, to, kIpProtocolIcmpv6, kTargetedBytes));
  return kFrameBytes;
}

}  // namespace

uint32_t answer_arp(std::span<const std::byte> request, const InspectedFrame& found,
                    const LinkIdentity& identity, std::span<std::byte> out) {
  using H = ArpHeader;
  const std::byte* arp = request.data() + found.offset;
  if (!identity.local.is_ipv4() || H::Operation::load(arp) != H::kRequest ||
      H::TargetAddress::load(arp) != identity.local.ipv4_address() ||
      out.size() < Ethernet::kBytes + H::kBytes) {
    return 0;
  }
  const MacAddress asker = mac_at(request, found.offset + H::kSenderMacByte);
  if (!is_individual(asker)) return 0;
  write_arp(out.data(), asker, identity, H::kReply, asker, H::SenderAddress::load(arp));
  return Ethernet::kBytes + H::kBytes;
}

std::optional<NeighbourAddress> read_arp_reply(std::span<const std::byte> frame,
                                               const InspectedFrame& found,
                                               const LinkIdentity& identity) {
  using H = ArpHeader;
  const std::byte* arp = frame.data() + found.offset;
  const NeighbourAddress neighbour{.address = Endpoint::ipv4(H::SenderAddress::load(arp), 0),
                                   .mac = mac_at(frame, found.offset + H::kSenderMacByte)};
  if (H::Operation::load(arp) != H::kReply || !is_individual(neighbour.mac) ||
      same_address(neighbour.address, identity.local)) {
    return std::nullopt;
  }
  return neighbour;
}

uint32_t answer_echo(std::span<const std::byte> request, const InspectedFrame& found,
                     const LinkIdentity& identity, std::span<std::byte> out) {
  const bool ipv4 = found.kind == FrameKind::kIcmp;
  const std::byte* message = request.data() + found.offset;
  const uint32_t ip_bytes = ipv4 ? kIpv4HeaderBytes : kIpv6HeaderBytes;
  const uint32_t frame_bytes = Ethernet::kBytes + ip_bytes + found.size;
  const MacAddress asker = mac_at(request, kSourceMacAt);
  const bool wanted =
      ControlHeader::Type::load(message) == (ipv4 ? kIcmpEchoRequest : kIcmpv6EchoRequest);
  // Answer only a ping sent to us alone: an answer to a group could be multiplied (RFC 1122
  // §3.2.2.6).
  if (!wanted || found.destination.is_multicast() || !is_individual(asker) ||
      out.size() < frame_bytes) {
    return 0;
  }
  write_ethernet(out.data(), asker, identity.mac,
                 ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6);
  std::byte* ip = out.data() + Ethernet::kBytes;
  std::byte* reply = ip + ip_bytes;
  std::memcpy(reply, message, found.size);
  ControlHeader::Type::store(reply, ipv4 ? kIcmpEchoReply : kIcmpv6EchoReply);
  const Endpoint& from = found.destination;
  if (ipv4) {
    write_ipv4(ip, from, found.source, kIpProtocolIcmp, kHopLimit, found.size);
    seal(reply, found.size, 0);
  } else {
    write_ipv6(ip, from, found.source, kIpProtocolIcmpv6, kHopLimit, found.size);
    seal(reply, found.size, pseudo_header_sum(from, found.source, kIpProtocolIcmpv6, found.size));
  }
  return frame_bytes;
}

uint32_t answer_solicitation(std::span<const std::byte> request, const InspectedFrame& found,
                             const LinkIdentity& identity, std::span<std::byte> out) {
  constexpr uint32_t kSolicitedOverride = 0x60000000;
  constexpr uint32_t kOverride = 0x20000000;
  const auto message = request.subspan(found.offset, found.size);
  if (found.size < kTargetedBytes || !came_from_this_link(request) ||
      ControlHeader::Type::load(message.data()) != kNeighbourSolicitation) {
    return 0;
  }
  const Endpoint target = ipv6_at(message.data() + kTargetAtByte);
  if (!same_address(target, identity.local) &&
      !same_address(target, link_local_address(identity.mac))) {
    return 0;
  }
  // A node that checks whether an address is free has no address yet, so the answer goes to all
  // nodes (RFC 4861 §7.2.4).
  if (same_address(found.source, Endpoint{})) {
    Endpoint all_nodes;
    all_nodes.address = {0xff, 0x02};
    all_nodes.address[15] = 1;
    return write_neighbour_message(identity, multicast_mac(all_nodes), target, all_nodes,
                                   kNeighbourAdvertisement, kOverride, target, kTargetLinkOption,
                                   out);
  }
  const MacAddress asker =
      link_option(message, kSourceLinkOption).value_or(mac_at(request, kSourceMacAt));
  if (!is_individual(asker)) return 0;
  return write_neighbour_message(identity, asker, target, found.source, kNeighbourAdvertisement,
                                 kSolicitedOverride, target, kTargetLinkOption, out);
}

std::optional<NeighbourAddress> read_advertisement(std::span<const std::byte> frame,
                                                   const InspectedFrame& found) {
  const auto message = frame.subspan(found.offset, found.size);
  if (found.size < kTargetedBytes || !came_from_this_link(frame) ||
      ControlHeader::Type::load(message.data()) != kNeighbourAdvertisement) {
    return std::nullopt;
  }
  const NeighbourAddress neighbour{
      .address = ipv6_at(message.data() + kTargetAtByte),
      .mac = link_option(message, kTargetLinkOption).value_or(mac_at(frame, kSourceMacAt))};
  if (!is_individual(neighbour.mac) || neighbour.address.is_multicast()) return std::nullopt;
  return neighbour;
}

uint32_t write_question(const Endpoint& wanted, const std::optional<MacAddress>& at,
                        const LinkIdentity& identity, std::span<std::byte> out) {
  if (identity.local.is_ipv4()) {
    if (out.size() < Ethernet::kBytes + ArpHeader::kBytes) return 0;
    write_arp(out.data(), at.value_or(kBroadcast), identity, ArpHeader::kRequest, MacAddress{},
              wanted.ipv4_address());
    return Ethernet::kBytes + ArpHeader::kBytes;
  }
  const Endpoint to = at ? wanted : solicited_node_group(wanted);
  return write_neighbour_message(identity, at.value_or(multicast_mac(to)), identity.local, to,
                                 kNeighbourSolicitation, 0, wanted, kSourceLinkOption, out);
}

uint32_t write_membership(Membership what, const Endpoint& group, const LinkIdentity& identity,
                          std::span<std::byte> out) {
  return group.is_ipv4() ? write_igmp(what, group, identity, out)
                         : write_mld(what, group, identity, out);
}

}  // namespace tributary::io
