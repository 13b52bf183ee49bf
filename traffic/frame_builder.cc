// SPDX-License-Identifier: Apache-2.0
#include "traffic/frame_builder.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/internet_checksum.h"
#include "wire/frame_headers.h"
#include "wire/headers.h"

namespace tributary::traffic {
namespace {

using wire::EthernetHeader;
using wire::TcpHeader;
using wire::UdpHeader;

/// Locally administered addresses of the two ends of the wire.
constexpr wire::MacAddress kSourceMac{0x02, 0, 0, 0, 0, 0x01};
constexpr wire::MacAddress kDestinationMac{0x02, 0, 0, 0, 0, 0x02};
constexpr uint32_t kTcpWindow = 65'535;

uint32_t ip_only_bytes(const FrameContents& contents) {
  return contents.source.is_ipv4() ? wire::Ipv4Header::kBytes : wire::Ipv6Header::kBytes;
}

void write_tcp(std::byte* at, const FrameContents& contents, uint32_t segment_bytes) {
  std::memset(at, 0, TcpHeader::kBytes);
  wire::MutableView<TcpHeader> tcp(at);
  tcp.set<TcpHeader::SourcePort>(contents.source.port);
  tcp.set<TcpHeader::DestinationPort>(contents.destination.port);
  tcp.set<TcpHeader::SequenceNumber>(contents.sequence_number);
  tcp.set<TcpHeader::AcknowledgmentNumber>(contents.acknowledgment_number);
  tcp.set<TcpHeader::HeaderWords>(TcpHeader::kBytes / 4);
  tcp.set<TcpHeader::Flags>(contents.tcp_flags);
  tcp.set<TcpHeader::Window>(kTcpWindow);
  // The payload is zero, so it adds nothing to the sum.
  const uint64_t pseudo = wire::pseudo_header_sum(contents.source, contents.destination,
                                                  wire::kIpProtocolTcp, segment_bytes);
  tcp.set<TcpHeader::Checksum>(internet_checksum({at, TcpHeader::kBytes}, pseudo));
}

}  // namespace

uint32_t ip_header_bytes(const FrameContents& contents) {
  return ip_only_bytes(contents) +
         (contents.transport == Transport::kTcp ? TcpHeader::kBytes : UdpHeader::kBytes);
}

uint32_t build_frame(const FrameContents& contents, std::span<std::byte> frame) {
  const bool ipv4 = contents.source.is_ipv4();
  const uint32_t ip_bytes = std::max(contents.ip_bytes, ip_header_bytes(contents));
  const uint32_t frame_bytes = std::max(EthernetHeader::kBytes + ip_bytes, kFrameBytesMin);
  TRIB_ASSERT(ipv4 == contents.destination.is_ipv4());
  TRIB_ASSERT(frame_bytes <= kFrameBytesMax && frame_bytes <= frame.size());
  std::memset(frame.data(), 0, frame_bytes);

  const uint32_t transport_bytes = ip_bytes - ip_only_bytes(contents);
  const uint32_t protocol =
      contents.transport == Transport::kTcp ? wire::kIpProtocolTcp : wire::kIpProtocolUdp;
  std::byte* const ip = frame.data() + EthernetHeader::kBytes;
  wire::write_ethernet(frame.data(), kDestinationMac, kSourceMac,
                       ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6);
  if (ipv4) {
    wire::write_ipv4(ip, contents.source, contents.destination, protocol, wire::kHopLimit,
                     transport_bytes);
  } else {
    wire::write_ipv6(ip, contents.source, contents.destination, protocol, wire::kHopLimit,
                     transport_bytes);
  }
  std::byte* const transport = ip + ip_only_bytes(contents);
  if (contents.transport == Transport::kTcp) {
    write_tcp(transport, contents, transport_bytes);
    return frame_bytes;
  }
  const uint32_t payload_bytes = transport_bytes - UdpHeader::kBytes;
  wire::write_udp(transport, contents.source.port, contents.destination.port, payload_bytes);
  UdpHeader::Checksum::store(
      transport, wire::udp_checksum(transport, contents.source, contents.destination, payload_bytes,
                                    /*payload_sum=*/0));
  return frame_bytes;
}

}  // namespace tributary::traffic
