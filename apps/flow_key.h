// SPDX-License-Identifier: Apache-2.0
/// @file
/// The flow of a packet: its VLAN tags, addresses, protocol and ports, read from a frame's head.
///
/// Model:   Ethernet, up to two VLAN tags, IPv4 with options or IPv6 with extension headers, then
///          ports. A fragment that does not begin its packet has ports 0, so a fragmented packet
///          makes two flows, as in Juniper's inline flow monitoring. A TCP packet of length 0 ends
///          with its frame: a sender's card fills in the lengths of large segments (TSO).
/// Errors:  Each defect of a frame has its own name in FlowFit. All reads lie in the head and in
///          the IP packet. An extension header has at least eight bytes, which bounds the loop.
/// Threads: Pure functions.
/// Tests:   tests/apps/flow_key_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <span>
#include <type_traits>

#include "apps/instructions.h"
#include "base/byte_order.h"
#include "microcode/frame_pool.h"
#include "microcode/local_memory.h"
#include "microcode/packet_head.h"
#include "wire/headers.h"

namespace tributary::apps {

/// Names a flow. Two packets belong to the same flow if all fields are equal.
struct FlowKey {
  std::array<uint8_t, 16> source{};  ///< Network order; IPv4 mapped (::ffff:a.b.c.d).
  std::array<uint8_t, 16> destination{};
  uint16_t source_port = 0;
  uint16_t destination_port = 0;  ///< ICMP: type * 256 + code.
  uint16_t vlan = 0;              ///< VLAN id of the outer tag; 0: none.
  uint16_t customer_vlan = 0;     ///< VLAN id of the inner tag; 0: none.
  uint8_t protocol = 0;
  uint8_t ip_version = 0;
  std::array<uint8_t, 6> padding{};  ///< Zero, so that the bytes of equal keys are equal.

  friend bool operator==(const FlowKey&, const FlowKey&) = default;
  friend auto operator<=>(const FlowKey&, const FlowKey&) = default;
};
static_assert(sizeof(FlowKey) == 48 && std::has_unique_object_representations_v<FlowKey>);

/// Hashes a flow with a secret seed: each multiplication takes two words of the key, each with its
/// own part of the seed, and folds the 128-bit product. Without the seed a sender cannot choose
/// flows with equal hashes.
struct FlowKeyHash {
  uint64_t operator()(const FlowKey& key, uint64_t seed) const {
    __extension__ using Wide = unsigned __int128;
    const auto words = std::bit_cast<std::array<uint64_t, sizeof(FlowKey) / 8>>(key);
    uint64_t hash = seed;
    for (uint32_t i = 0; i < words.size(); i += 2) {
      const Wide product = static_cast<Wide>(words[i] ^ hash ^ 0x9e3779b97f4a7c15ULL) *
                           (words[i + 1] ^ std::rotl(seed, 29) ^ 0xe7037ed1a0b428dbULL);
      hash += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
    return hash;
  }
};

/// The result of reading a frame's headers.
enum class FlowFit : uint8_t {
  kFits,
  kNotFrame,        ///< The port has removed the headers.
  kNotIp,           ///< Another EtherType: ARP, for example.
  kTooManyTags,     ///< More than two VLAN tags.
  kBadIpHeader,     ///< Version or lengths contradict each other.
  kHeadersTooLong,  ///< The ports lie behind the head.
  kTruncated,       ///< The frame or the IP packet ends inside a header.
};

/// The part of a packet that a flow record needs.
struct FlowPacket {
  FlowKey key;
  uint32_t ip_bytes = 0;           ///< IP header and payload, as octetDeltaCount counts.
  uint32_t tcp_flags = 0;          ///< 0 for other protocols and later fragments.
  bool is_later_fragment = false;  ///< A fragment after the first; it has no ports.
};

inline constexpr microcode::Instruction kParseExtension{"parse_extension",
                                                        {.lmem_reads = 1, .register_writes = 2}};
inline constexpr microcode::Instruction kParsePorts{"parse_ports",
                                                    {.lmem_reads = 2, .lmem_writes = 2}};

/// Reads the headers of one frame.
/// @tparam Head As microcode::PacketHead.
/// @tparam Mark Called with each instruction that a thread executes. Its wrote() gets each variable
///              in local memory that the instruction writes.
template <class Head, class Mark>
class FlowParser {
 public:
  FlowParser(Head head, uint32_t packet_bytes, Mark mark, FlowPacket& packet)
      : head_(head), end_(packet_bytes), mark_(mark), packet_(packet) {}

  FlowFit parse() {
    using Ethernet = wire::EthernetHeader;
    if (const FlowFit fit = fit_of(Ethernet::kBytes); fit != FlowFit::kFits) return fit;
    mark_(kParseEthernet);
    uint32_t type = take<Ethernet>().template get<Ethernet::EtherType>();
    for (uint16_t* vlan : {&packet_.key.vlan, &packet_.key.customer_vlan}) {
      if (!is_tag(type)) break;
      if (const FlowFit fit = fit_of(wire::VlanTag::kBytes); fit != FlowFit::kFits) return fit;
      mark_(kParseVlan);
      const auto tag = take<wire::VlanTag>();
      *vlan = static_cast<uint16_t>(tag.template get<wire::VlanTag::VlanId>());
      type = tag.template get<wire::VlanTag::EtherType>();
    }
    if (is_tag(type)) return FlowFit::kTooManyTags;
    if (type == wire::kEtherTypeIpv4) return parse_ipv4();
    if (type == wire::kEtherTypeIpv6) return parse_ipv6();
    return FlowFit::kNotIp;
  }

 private:
  static bool is_tag(uint32_t type) {
    return type == wire::kEtherTypeVlan || type == wire::kEtherTypeServiceVlan ||
           type == wire::kEtherTypeOldServiceVlan;
  }
  /// Returns kFits if `bytes` bytes from offset_ on lie in the packet and in its head.
  [[nodiscard]] FlowFit fit_of(uint32_t bytes) const {
    if (offset_ + bytes > end_) return FlowFit::kTruncated;
    return offset_ + bytes > head_.size() ? FlowFit::kHeadersTooLong : FlowFit::kFits;
  }
  /// Returns the header at offset_. @pre fit_of(Header::kBytes) is kFits.
  template <class Header>
  [[nodiscard]] auto peek() const {
    return *head_.template view<Header>(offset_);
  }
  /// Returns the header at offset_ and moves behind it. @pre as peek().
  template <class Header>
  auto take() {
    const auto view = peek<Header>();
    offset_ += Header::kBytes;
    return view;
  }

  FlowFit parse_ipv4() {
    using H = wire::Ipv4Header;
    if (const FlowFit fit = fit_of(H::kBytes); fit != FlowFit::kFits) return fit;
    mark_(kParseIp);
    const auto ip = peek<H>();
    const uint32_t header_bytes = ip.template get<H::HeaderWords>() * 4;
    uint32_t total_bytes = ip.template get<H::TotalLength>();
    if (total_bytes == 0 && ip.template get<H::Protocol>() == wire::kIpProtocolTcp) [[unlikely]] {
      total_bytes = end_ - offset_;
    }
    if (ip.template get<H::Version>() != 4 || header_bytes < H::kBytes ||
        total_bytes < header_bytes) {
      return FlowFit::kBadIpHeader;
    }
    if (offset_ + total_bytes > end_) return FlowFit::kTruncated;
    mark_(kParseAddresses);
    packet_.key.ip_version = 4;
    store_ipv4(ip.template get<H::SourceAddress>(), packet_.key.source);
    store_ipv4(ip.template get<H::DestinationAddress>(), packet_.key.destination);
    mark_.wrote(packet_.key.source.data() + kIpv4Begin, kIpv4Bytes);
    mark_.wrote(packet_.key.destination.data() + kIpv4Begin, kIpv4Bytes);
    packet_.ip_bytes = total_bytes;
    end_ = offset_ + total_bytes;  // Padding may follow.
    offset_ += header_bytes;
    return parse_ports(ip.template get<H::Protocol>(), ip.template get<H::FragmentOffset>() != 0);
  }

  FlowFit parse_ipv6() {
    using H = wire::Ipv6Header;
    if (const FlowFit fit = fit_of(H::kBytes); fit != FlowFit::kFits) return fit;
    mark_(kParseIp);
    const auto ip = peek<H>();
    if (ip.template get<H::Version>() != 6) return FlowFit::kBadIpHeader;
    const uint32_t next = ip.template get<H::NextHeader>();
    uint32_t total_bytes = H::kBytes + ip.template get<H::PayloadLength>();
    if (total_bytes == H::kBytes && next == wire::kIpProtocolTcp) [[unlikely]] {
      total_bytes = end_ - offset_;
    }
    if (offset_ + total_bytes > end_) return FlowFit::kTruncated;
    packet_.key.ip_version = 6;
    using microcode::copy_bytes;
    mark_(kParseSource);
    copy_bytes(ip, H::kSourceByte, packet_.key.source);
    mark_.wrote(packet_.key.source.data(), sizeof packet_.key.source);
    mark_(kParseDestination);
    copy_bytes(ip, H::kDestinationByte, packet_.key.destination);
    mark_.wrote(packet_.key.destination.data(), sizeof packet_.key.destination);
    packet_.ip_bytes = total_bytes;
    end_ = offset_ + total_bytes;
    offset_ += H::kBytes;
    return parse_extensions(next);
  }

  /// Skips the extension headers from `next` on, each of at least eight bytes.
  FlowFit parse_extensions(uint32_t next) {
    bool later_fragment = false;
    // The header of a later fragment is followed by payload.
    while (!later_fragment && is_extension(next)) {
      mark_(kParseExtension);
      if (next == wire::kIpv6Fragment) {
        using F = wire::Ipv6FragmentHeader;
        if (const FlowFit fit = fit_of(F::kBytes); fit != FlowFit::kFits) return fit;
        const auto fragment = take<F>();
        next = fragment.template get<F::NextHeader>();
        later_fragment = fragment.template get<F::FragmentOffset>() != 0;
        continue;
      }
      using E = wire::Ipv6Extension;
      if (const FlowFit fit = fit_of(E::kBytes); fit != FlowFit::kFits) return fit;
      const auto extension = peek<E>();
      const uint32_t length = extension.template get<E::Length>();
      const uint32_t bytes =
          next == wire::kIpv6Authentication ? (length + 2) * 4 : (length + 1) * 8;
      if (offset_ + bytes > end_) return FlowFit::kTruncated;
      offset_ += bytes;
      next = extension.template get<E::NextHeader>();
    }
    return parse_ports(next, later_fragment);
  }

  static bool is_extension(uint32_t next) {
    return next == wire::kIpv6HopByHop || next == wire::kIpv6Routing ||
           next == wire::kIpv6Fragment || next == wire::kIpv6Authentication ||
           next == wire::kIpv6DestinationOptions || next == wire::kIpv6Mobility;
  }

  FlowFit parse_ports(uint32_t protocol, bool later_fragment) {
    packet_.key.protocol = static_cast<uint8_t>(protocol);
    packet_.is_later_fragment = later_fragment;
    if (later_fragment) return FlowFit::kFits;
    mark_(kParsePorts);
    switch (protocol) {
      case wire::kIpProtocolTcp: {
        if (const FlowFit fit = fit_of(wire::TcpHeaderStart::kBytes); fit != FlowFit::kFits)
          return fit;
        packet_.tcp_flags =
            peek<wire::TcpHeaderStart>().template get<wire::TcpHeaderStart::ControlBits>();
        break;
      }
      case wire::kIpProtocolUdp:
      case wire::kIpProtocolDccp:
      case wire::kIpProtocolSctp:
      case wire::kIpProtocolUdpLite:
        break;
      case wire::kIpProtocolIcmp:
      case wire::kIpProtocolIcmpv6: {
        using H = wire::IcmpHeader;
        if (const FlowFit fit = fit_of(H::kBytes); fit != FlowFit::kFits) return fit;
        packet_.key.destination_port =
            static_cast<uint16_t>(peek<H>().template get<H::TypeAndCode>());
        mark_.wrote(&packet_.key.destination_port, sizeof packet_.key.destination_port);
        return FlowFit::kFits;
      }
      default:
        return FlowFit::kFits;
    }
    using P = wire::TransportPorts;
    if (const FlowFit fit = fit_of(P::kBytes); fit != FlowFit::kFits) return fit;
    packet_.key.source_port = static_cast<uint16_t>(peek<P>().template get<P::Source>());
    packet_.key.destination_port = static_cast<uint16_t>(peek<P>().template get<P::Destination>());
    mark_.wrote(&packet_.key.source_port, P::kBytes);
    return FlowFit::kFits;
  }

  // The IPv4 part of an address in a key, with its prefix; the bytes in front are zero.
  static constexpr uint32_t kIpv4Begin = 10;
  static constexpr uint32_t kIpv4Bytes = 6;
  static void store_ipv4(uint32_t address, std::array<uint8_t, 16>& to) {
    to[kIpv4Begin] = to[kIpv4Begin + 1] = 0xff;
    const uint32_t bytes = byte_swapped(address);
    std::memcpy(to.data() + kIpv4Begin + 2, &bytes, sizeof bytes);
  }

  const Head head_;
  uint32_t end_;  ///< End offset of the frame, then of the IP packet.
  uint32_t offset_ = 0;
  Mark mark_;
  FlowPacket& packet_;
};

/// Takes the parser's instructions and writes to the machine of a thread.
template <class M>
struct ThreadMarks {
  using Place = std::source_location;
  void operator()(const microcode::Instruction& mark, const Place& place = Place::current()) const {
    if constexpr (requires { m.instruction(mark, place); }) {
      m.instruction(mark, place);
    } else {
      m.instruction(mark);
    }
  }
  void wrote(const void* first, uint32_t size_bytes, const Place& place = Place::current()) const {
    microcode::note_store(m, first, size_bytes, place);
  }
  M& m;
};
/// Ignores the marks; for reading outside a thread.
struct NoMarks {
  void operator()(const microcode::Instruction&) const {}
  void wrote(const void*, uint32_t) const {}
};

/// Reads the flow of a frame.
/// @param mark   ThreadMarks or NoMarks.
/// @param packet Blank; complete only if the result is kFits. With kHeadersTooLong the VLAN
///               tags, IP version, addresses and ip_bytes are set.
template <class Head, class Mark>
FlowFit parse_flow(Head head, uint32_t packet_bytes, Mark mark, FlowPacket& packet) {
  return FlowParser<Head, Mark>(head, packet_bytes, mark, packet).parse();
}

/// Reads the flow of a whole packet outside a thread, from the bytes that a thread would have as
/// its head. @param packet_flow Blank. @return As parse_flow(); kNotFrame unless `is_frame`.
inline FlowFit read_flow(std::span<const std::byte> packet, bool is_frame,
                         FlowPacket& packet_flow) {
  if (!is_frame) return FlowFit::kNotFrame;
  const microcode::PacketHead head(
      packet.first(std::min<size_t>(packet.size(), microcode::kHeadBytes)));
  return parse_flow(head, static_cast<uint32_t>(packet.size()), NoMarks(), packet_flow);
}

/// Reads the flow of a frame. A capture may hold the first bytes of the frame only.
/// @param wire_bytes  Its size on the wire. @param packet_flow Blank.
/// @return As parse_flow(); kTruncated also if bytes of a header are missing.
inline FlowFit read_captured_flow(std::span<const std::byte> held, uint32_t wire_bytes,
                                  FlowPacket& packet_flow) {
  const microcode::PacketHead head(
      held.first(std::min<size_t>(held.size(), microcode::kHeadBytes)));
  const FlowFit fit = parse_flow(head, wire_bytes, NoMarks(), packet_flow);
  const bool is_cut = fit == FlowFit::kHeadersTooLong && held.size() < microcode::kHeadBytes;
  return is_cut ? FlowFit::kTruncated : fit;
}

/// Tells whether a capture has cut a header that a flow needs and that the frame had on the wire.
inline bool are_headers_cut(std::span<const std::byte> held, uint32_t wire_bytes) {
  if (held.size() >= microcode::kHeadBytes) return false;
  FlowPacket flow;
  const FlowFit fit = parse_flow(microcode::PacketHead(held), wire_bytes, NoMarks(), flow);
  return fit == FlowFit::kHeadersTooLong;
}

}  // namespace tributary::apps
