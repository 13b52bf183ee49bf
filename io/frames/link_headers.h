// SPDX-License-Identifier: Apache-2.0
/// @file
/// The headers of the small protocols that a port uses to find its neighbours. wire/headers.h has
/// the others.
///
/// Sources: RFC 826 (ARP), RFC 792 (ICMP), RFC 2236 (IGMPv2), RFC 4443 (ICMPv6), RFC 4861
///          (neighbour discovery), RFC 2710 (MLD).
/// Tests:   tests/io/frames/link_inspect_test.cc, tests/io/frames/link_answers_test.cc
#pragma once

#include <cstdint>

#include "wire/headers.h"

namespace tributary::io {

inline constexpr uint32_t kEtherTypeArp = 0x0806;
/// Tags of IEEE 802.1Q, 802.1ad, and the older double tag.
inline constexpr uint32_t kEtherTypeVlan = 0x8100;
inline constexpr uint32_t kEtherTypeServiceVlan = 0x88a8;
inline constexpr uint32_t kEtherTypeOldVlan = 0x9100;

inline constexpr uint32_t kIpProtocolHopByHop = 0;
inline constexpr uint32_t kIpProtocolIcmp = 1;
inline constexpr uint32_t kIpProtocolIgmp = 2;
inline constexpr uint32_t kIpProtocolFragment = 44;
inline constexpr uint32_t kIpProtocolIcmpv6 = 58;

struct ArpHeader {
  static constexpr uint32_t kBytes = 28;  ///< For Ethernet and IPv4.
  using HardwareType = wire::Field<kBytes, 0, 16>;
  using ProtocolType = wire::Field<kBytes, 16, 16>;
  using AddressLengths = wire::Field<kBytes, 32, 16>;
  using Operation = wire::Field<kBytes, 48, 16>;
  static constexpr uint32_t kSenderMacByte = 8;
  using SenderAddress = wire::Field<kBytes, 112, 32>;
  static constexpr uint32_t kTargetMacByte = 18;
  using TargetAddress = wire::Field<kBytes, 192, 32>;

  static constexpr uint32_t kEthernet = 1;
  static constexpr uint32_t kLengths = 0x0604;  ///< Six bytes of MAC, four of IPv4.
  static constexpr uint32_t kRequest = 1;
  static constexpr uint32_t kReply = 2;
};

/// The first fields of ICMP, ICMPv6 and IGMP.
struct ControlHeader {
  static constexpr uint32_t kBytes = 8;
  using Type = wire::Field<kBytes, 0, 8>;
  using Code = wire::Field<kBytes, 8, 8>;
  using Checksum = wire::Field<kBytes, 16, 16>;
  using Rest = wire::Field<kBytes, 32, 32>;
};

inline constexpr uint32_t kIcmpEchoReply = 0;
inline constexpr uint32_t kIcmpEchoRequest = 8;

/// RFC 2236 §2.
inline constexpr uint32_t kIgmpQuery = 0x11;
inline constexpr uint32_t kIgmpReport = 0x16;
inline constexpr uint32_t kIgmpLeave = 0x17;

inline constexpr uint32_t kIcmpv6EchoRequest = 128;
inline constexpr uint32_t kIcmpv6EchoReply = 129;
inline constexpr uint32_t kMldQuery = 130;
inline constexpr uint32_t kMldReport = 131;
inline constexpr uint32_t kMldDone = 132;
inline constexpr uint32_t kNeighbourSolicitation = 135;
inline constexpr uint32_t kNeighbourAdvertisement = 136;

/// Neighbour solicitations, advertisements and MLD messages have a control header, then an address.
inline constexpr uint32_t kTargetAtByte = 8;
inline constexpr uint32_t kTargetedBytes = 24;
/// A link-layer address option follows the address.
inline constexpr uint32_t kLinkOptionBytes = 8;
inline constexpr uint32_t kSourceLinkOption = 1;
inline constexpr uint32_t kTargetLinkOption = 2;
/// A neighbour discovery message that has crossed a router is refused (RFC 4861 §7.1).
inline constexpr uint8_t kNeighbourHopLimit = 255;

}  // namespace tributary::io
