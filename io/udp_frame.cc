// SPDX-License-Identifier: Apache-2.0
#include "io/udp_frame.h"

#include <cstring>

#include "base/byte_order.h"
#include "io/udp_port_config.h"

namespace tributary::io {
namespace {

using microcode::kIpProtocolUdp;

constexpr uint16_t kDoNotFragment = 0x4000;

/// The bytes of the address as its family has them on the wire.
std::span<const std::byte> wire_address(const Endpoint& endpoint, bool ipv4) {
  const auto bytes = std::as_bytes(std::span(endpoint.address));
  return ipv4 ? bytes.subspan(kIpv4AddressAt) : bytes;
}

}  // namespace

void write_ethernet(std::byte* at, const MacAddress& destination, const MacAddress& source,
                    uint32_t ether_type) {
  std::memcpy(at, destination.data(), destination.size());
  std::memcpy(at + 6, source.data(), source.size());
  store_be<uint16_t>(at + 12, static_cast<uint16_t>(ether_type));
}

void write_ipv4(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t protocol, uint8_t time_to_live, uint32_t payload_bytes) {
  std::memset(at, 0, kIpv4HeaderBytes);
  at[0] = std::byte{0x45};  // Version 4, five words of header.
  store_be<uint16_t>(at + 2, static_cast<uint16_t>(kIpv4HeaderBytes + payload_bytes));
  store_be<uint16_t>(at + 6, kDoNotFragment);
  at[8] = std::byte{time_to_live};
  at[9] = static_cast<std::byte>(protocol);
  std::memcpy(at + 12, source.address.data() + kIpv4AddressAt, 4);
  std::memcpy(at + 16, destination.address.data() + kIpv4AddressAt, 4);
  store_be<uint16_t>(at + 10, internet_checksum({at, kIpv4HeaderBytes}));
}

void write_ipv6(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t next_header, uint8_t hop_limit, uint32_t payload_bytes) {
  std::memset(at, 0, kIpv6HeaderBytes);
  at[0] = std::byte{0x60};  // Version 6.
  store_be<uint16_t>(at + 4, static_cast<uint16_t>(payload_bytes));
  at[6] = static_cast<std::byte>(next_header);
  at[7] = std::byte{hop_limit};
  std::memcpy(at + 8, source.address.data(), 16);
  std::memcpy(at + 24, destination.address.data(), 16);
}

uint64_t pseudo_header_sum(const Endpoint& source, const Endpoint& destination, uint32_t protocol,
                           uint32_t payload_bytes) {
  const bool ipv4 = source.is_ipv4();
  return uint64_t{word_sum(wire_address(source, ipv4))} +
         word_sum(wire_address(destination, ipv4)) + protocol + payload_bytes;
}

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
                 ipv4 ? microcode::kEtherTypeIpv4 : microcode::kEtherTypeIpv6);
  if (ipv4) {
    write_ipv4(ip, source, destination, kIpProtocolUdp, kHopLimit, udp_bytes);
  } else {
    write_ipv6(ip, source, destination, kIpProtocolUdp, kHopLimit, udp_bytes);
  }
  std::byte* const udp = frame.data() + header_bytes - kUdpHeaderBytes;
  store_be<uint16_t>(udp, source.port);
  store_be<uint16_t>(udp + 2, destination.port);
  store_be<uint16_t>(udp + 4, static_cast<uint16_t>(udp_bytes));
  store_be<uint16_t>(udp + 6, uint16_t{0});
  if (checksum == UdpChecksum::kNone && ipv4) return header_bytes;
  uint64_t sum = pseudo_header_sum(source, destination, kIpProtocolUdp, udp_bytes);
  if (checksum == UdpChecksum::kPseudoHeader) {
    store_be<uint16_t>(udp + 6, fold_sum(sum));
    return header_bytes;
  }
  sum += uint64_t{word_sum({udp, kUdpHeaderBytes})} + payload_sum;
  const auto complete = static_cast<uint16_t>(~fold_sum(sum));
  // 0 means "no checksum" (RFC 768); its other one's complement form is sent instead.
  store_be<uint16_t>(udp + 6, complete == 0 ? uint16_t{0xffff} : complete);
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
