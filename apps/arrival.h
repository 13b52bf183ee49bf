// SPDX-License-Identifier: Apache-2.0
/// @file
/// From a packet to the message in it, for programs over UDP: Ethernet, IP and UDP headers where
/// the port delivers frames, nothing where the kernel has taken them off.
///
/// Errors: Each way in which a frame can be unfit has a name of its own; programs count them under
///         it.
/// Tests:  tests/apps/trio_ml/arrival_test.cc, tests/apps/switchml/refusal_test.cc
#pragma once

#include <cstring>
#include <span>

#include "base/endpoint.h"
#include "microcode/machine.h"
#include "wire/headers.h"

namespace tributary::apps {

inline constexpr microcode::Instruction kParseEthernet{"parse_ethernet",
                                                       {.lmem_reads = 1, .register_writes = 1}};
inline constexpr microcode::Instruction kParseIp{"parse_ip",
                                                 {.lmem_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kParseUdp{"parse_udp",
                                                  {.lmem_reads = 2, .register_writes = 2}};

/// Where the message lies in the packet, and who sent it.
struct Arrival {
  uint32_t offset = 0;  ///< Of the UDP payload, in bytes from the packet's start.
  uint32_t size = 0;    ///< Of the UDP payload.
  Endpoint source;
};

/// What locating a message found: it fits, or why not.
enum class Fit : uint8_t {
  kFits,
  kNotIp,
  kBadIpHeader,  ///< Lengths or version that do not fit the frame.
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
  std::memcpy(arrival.source.address.data(), ip->bytes() + H::kSourceByte, 16);
  ip_end = offset + H::kBytes + payload_bytes;
  offset += H::kBytes;
  return Fit::kFits;
}

}  // namespace detail

/// Where the UDP payload begins if the frame is what locate_udp_payload() accepts.
[[nodiscard]] inline uint32_t frame_payload_offset(std::span<const std::byte> frame) {
  using Ethernet = wire::EthernetHeader;
  const bool is_ipv6 = frame.size() >= Ethernet::kBytes &&
                       Ethernet::EtherType::load(frame.data()) == wire::kEtherTypeIpv6;
  return Ethernet::kBytes + (is_ipv6 ? wire::Ipv6Header::kBytes : wire::Ipv4Header::kBytes) +
         wire::UdpHeader::kBytes;
}

/// Finds the UDP payload addressed to `udp_port` in a frame. Apart from the rest, since ports that
/// deliver payloads alone never come here.
/// @param port_mask Bits of the destination port that have to agree.
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

/// The packet at hand as if it were a UDP payload and nothing else.
template <microcode::Machine M>
Arrival payload_arrival(const M& m) {
  return {.offset = 0, .size = m.packet_size(), .source = m.source()};
}

/// Finds the UDP payload addressed to `udp_port` in the packet at hand, a frame or a payload.
/// @param arrival As payload_arrival() has made it.
/// @param port_mask As for locate_in_frame().
template <microcode::Machine M>
Fit locate_udp_payload(M& m, uint16_t udp_port, Arrival& arrival, uint16_t port_mask = 0xffff) {
  if (!m.arrived_as_frame()) return Fit::kFits;
  Arrival in_frame = arrival;  // A copy, so that the caller's can stay in registers.
  const Fit fit = locate_in_frame(m, udp_port, in_frame, port_mask);
  arrival = in_frame;
  return fit;
}

}  // namespace tributary::apps
