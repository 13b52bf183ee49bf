// SPDX-License-Identifier: Apache-2.0
#include "io/frames/udp_frame.h"

#include <cstring>

#include "base/byte_order.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {
using wire::kIpProtocolUdp;

uint32_t write_udp_frame_headers(const UdpFrameAddresses& addresses, uint32_t payload_bytes,
                                 uint16_t payload_sum, UdpChecksum checksum,
                                 std::span<std::byte> frame) {
  const Endpoint& source = addresses.source;
  const Endpoint& destination = addresses.destination;
  const bool ipv4 = source.is_ipv4();
  const uint32_t header_bytes = ipv4 ? kUdpFrameHeaderBytesIpv4 : kUdpFrameHeaderBytesIpv6;
  if (ipv4 != destination.is_ipv4() || payload_bytes > kUdpPayloadBytesMax ||
      frame.size() < header_bytes) {
    return 0;
  }
  const uint32_t udp_bytes = kUdpHeaderBytes + payload_bytes;
  std::byte* const ip = frame.data() + kEthernetHeaderBytes;
  write_ethernet(frame.data(), addresses.destination_mac, addresses.source_mac,
                 ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6);
  if (ipv4) {
    write_ipv4(ip, source, destination, kIpProtocolUdp, kHopLimit, udp_bytes);
  } else {
    write_ipv6(ip, source, destination, kIpProtocolUdp, kHopLimit, udp_bytes);
  }
  std::byte* const udp = frame.data() + header_bytes - kUdpHeaderBytes;
  wire::write_udp(udp, source.port, destination.port, payload_bytes);
  if (checksum == UdpChecksum::kNone && ipv4) return header_bytes;
  const uint16_t sum =
      checksum == UdpChecksum::kPseudoHeader
          ? fold_sum(pseudo_header_sum(source, destination, kIpProtocolUdp, udp_bytes))
          : wire::udp_checksum(udp, source, destination, payload_bytes, payload_sum);
  store_be(udp + 6, sum);
  return header_bytes;
}

uint32_t build_udp_frame(const UdpFrameAddresses& addresses, std::span<const std::byte> payload,
                         std::span<std::byte> frame) {
  const uint32_t header_bytes =
      addresses.source.is_ipv4() ? kUdpFrameHeaderBytesIpv4 : kUdpFrameHeaderBytesIpv6;
  if (payload.size() > kUdpPayloadBytesMax || frame.size() < header_bytes + payload.size()) {
    return 0;
  }
  const auto payload_bytes = static_cast<uint32_t>(payload.size());
  if (write_udp_frame_headers(addresses, payload_bytes, word_sum(payload), UdpChecksum::kComplete,
                              frame) == 0) {
    return 0;
  }
  if (!payload.empty()) std::memcpy(frame.data() + header_bytes, payload.data(), payload.size());
  return header_bytes + payload_bytes;
}

}  // namespace tributary::io
