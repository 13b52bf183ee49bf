// SPDX-License-Identifier: Apache-2.0
/// @file
/// Locates the UDP payload in a packet. A port delivers either frames with Ethernet, IP and UDP
/// headers, or payloads from which the kernel has removed these headers.
///
/// Errors: Each defect of a frame has its own name in Fit. Programs count packets by these names.
/// Tests:  tests/apps/arrival_test.cc, tests/apps/switchml/refusal_test.cc
#pragma once

#include <span>

#include "apps/instructions.h"
#include "base/endpoint.h"
#include "microcode/machine.h"
#include "wire/headers.h"

namespace tributary::apps {

/// The position of the message in the packet, and its sender.
struct Arrival {
  uint32_t offset = 0;  ///< UDP payload: bytes from the packet's start.
  uint32_t size = 0;    ///< UDP payload: bytes.
  Endpoint source;
};

/// The result of locating a message.
enum class Fit : uint8_t {
  kFits,
  kNotIp,
  kBadIpHeader,  ///< Lengths or version contradict the frame.
  kIpOptions,
  kFragment,
  kNotUdp,
  kWrongPort,
  kTruncated,  ///< Shorter than its headers.
};

/// Returns the counter for a frame that does not fit. A program's Outcome lists these reasons under
/// the same names and in the same order. @pre fit is not kFits.
template <class Outcome>
[[nodiscard]] constexpr Outcome outcome_of(Fit fit) {
  constexpr auto kFirst = static_cast<uint32_t>(Fit::kNotIp);
  constexpr auto kFirstCounter = static_cast<uint32_t>(Outcome::kNotIp);
  static_assert(static_cast<uint32_t>(Outcome::kTruncated) - kFirstCounter ==
                static_cast<uint32_t>(Fit::kTruncated) - kFirst);
  return static_cast<Outcome>(kFirstCounter + static_cast<uint32_t>(fit) - kFirst);
}

namespace detail {

template <microcode::Machine M>
Fit locate_ipv4(M& m, uint32_t& offset, uint32_t& ip_end, Arrival& arrival) {
  using H = wire::Ipv4Header;
  const auto ip = m.head().template view<H>(offset);
  if (!ip) return Fit::kTruncated;
  m.instruction(kParseIp);
  const uint32_t total_bytes = ip->template get<H::TotalLength>();
  if (ip->template get<H::Version>() != 4 || ip->template get<H::HeaderWords>() < 5 ||
      total_bytes < H::kBytes || offset + total_bytes > m.packet_size()) {
    return Fit::kBadIpHeader;
  }
  if (ip->template get<H::HeaderWords>() != 5) return Fit::kIpOptions;
  if (ip->template get<H::MoreFragments>() != 0 || ip->template get<H::FragmentOffset>() != 0) {
    return Fit::kFragment;
  }
  if (ip->template get<H::Protocol>() != wire::kIpProtocolUdp) {
    return Fit::kNotUdp;
  }
  arrival.source = Endpoint::ipv4(ip->template get<H::SourceAddress>(), 0);
  ip_end = offset + total_bytes;
  offset += H::kBytes;
  return Fit::kFits;
}

template <microcode::Machine M>
Fit locate_ipv6(M& m, uint32_t& offset, uint32_t& ip_end, Arrival& arrival) {
  using H = wire::Ipv6Header;
  const auto ip = m.head().template view<H>(offset);
  if (!ip) return Fit::kTruncated;
  m.instruction(kParseIp);
  const uint32_t payload_bytes = ip->template get<H::PayloadLength>();
  if (ip->template get<H::Version>() != 6 || offset + H::kBytes + payload_bytes > m.packet_size()) {
    return Fit::kBadIpHeader;
  }
  if (ip->template get<H::NextHeader>() != wire::kIpProtocolUdp) {
    return Fit::kNotUdp;
  }
  m.instruction(kParseSource);
  using microcode::copy_bytes;
  copy_bytes(*ip, H::kSourceByte, arrival.source.address);
  ip_end = offset + H::kBytes + payload_bytes;
  offset += H::kBytes;
  return Fit::kFits;
}

}  // namespace detail

/// Returns the offset of the UDP payload in a frame that locate_udp_payload() accepts.
[[nodiscard]] inline uint32_t frame_payload_offset(std::span<const std::byte> frame) {
  using Ethernet = wire::EthernetHeader;
  const bool is_ipv6 = frame.size() >= Ethernet::kBytes &&
                       Ethernet::EtherType::load(frame.data()) == wire::kEtherTypeIpv6;
  return Ethernet::kBytes + (is_ipv6 ? wire::Ipv6Header::kBytes : wire::Ipv4Header::kBytes) +
         wire::UdpHeader::kBytes;
}

/// Finds the UDP payload addressed to `udp_port` in a frame.
/// noinline: ports that deliver payloads never call it.
/// @param port_mask Bits of the destination port that must match.
template <microcode::Machine M>
[[gnu::noinline]] Fit locate_in_frame(M& m, uint16_t udp_port, Arrival& arrival,
                                      uint16_t port_mask = 0xffff) {
  using Ethernet = wire::EthernetHeader;
  using Udp = wire::UdpHeader;
  const auto ethernet = m.head().template view<Ethernet>(0);
  if (!ethernet) return Fit::kTruncated;
  m.instruction(kParseEthernet);
  uint32_t offset = Ethernet::kBytes;
  uint32_t ip_end = 0;
  Fit fit = Fit::kFits;
  switch (ethernet->template get<Ethernet::EtherType>()) {
    case wire::kEtherTypeIpv4:
      fit = detail::locate_ipv4(m, offset, ip_end, arrival);
      break;
    case wire::kEtherTypeIpv6:
      fit = detail::locate_ipv6(m, offset, ip_end, arrival);
      break;
    default:
      return Fit::kNotIp;
  }
  if (fit != Fit::kFits) return fit;

  const auto udp = m.head().template view<Udp>(offset);
  if (!udp) return Fit::kTruncated;
  m.instruction(kParseUdp);
  const uint32_t udp_bytes = udp->template get<Udp::Length>();
  if (udp_bytes < Udp::kBytes || offset + udp_bytes > ip_end) {
    return Fit::kTruncated;
  }
  if (((udp->template get<Udp::DestinationPort>() ^ udp_port) & port_mask) != 0) {
    return Fit::kWrongPort;
  }
  arrival.source.port = static_cast<uint16_t>(udp->template get<Udp::SourcePort>());
  arrival.offset = offset + Udp::kBytes;
  arrival.size = udp_bytes - Udp::kBytes;
  return Fit::kFits;
}

/// Returns the arrival of a packet that is a UDP payload without headers.
template <microcode::Machine M>
Arrival payload_arrival(const M& m) {
  return {.offset = 0, .size = m.packet_size(), .source = m.source()};
}

/// Finds the UDP payload addressed to `udp_port` in the packet, a frame or a payload.
/// @param arrival   The result of payload_arrival(); changed if the packet is a frame.
/// @param port_mask As for locate_in_frame().
template <microcode::Machine M>
Fit locate_udp_payload(M& m, uint16_t udp_port, Arrival& arrival, uint16_t port_mask = 0xffff) {
  if (!m.arrived_as_frame()) return Fit::kFits;
  Arrival in_frame = arrival;  // A copy, so that the caller's stays in registers.
  const Fit fit = locate_in_frame(m, udp_port, in_frame, port_mask);
  arrival = in_frame;
  return fit;
}

}  // namespace tributary::apps
