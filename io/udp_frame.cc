// SPDX-License-Identifier: Apache-2.0
#include "io/udp_frame.h"

#include <cstring>

#include "base/byte_order.h"
#include "io/udp_port_config.h"

namespace tributary::io {
namespace {

constexpr uint16_t kEtherTypeIpv4 = 0x0800;
constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr uint8_t kProtocolUdp = 17;
constexpr uint8_t kHopLimit = 64;  ///< Source: RFC 1700, "recommended default".
constexpr uint16_t kDoNotFragment = 0x4000;
constexpr uint32_t kIpv4AddressAt = 12;  ///< In Endpoint::address, behind the mapped prefix.

/// Sum of big-endian 16-bit words, not folded: 64 bits hold any packet's.
uint64_t word_sum(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) sum += load_be<uint16_t>(bytes.data() + i);
  if (i < bytes.size()) sum += std::to_integer<uint64_t>(bytes[i]) << 8;
  return sum;
}

void write_ethernet(std::byte* at, const UdpFrameAddresses& addresses, uint16_t ether_type) {
  std::memcpy(at, addresses.destination_mac.data(), 6);
  std::memcpy(at + 6, addresses.source_mac.data(), 6);
  store_be<uint16_t>(at + 12, ether_type);
}

void write_ipv4(std::byte* at, const UdpFrameAddresses& addresses, uint32_t udp_bytes) {
  std::memset(at, 0, kIpv4HeaderBytes);
  at[0] = std::byte{0x45};  // Version 4, five words of header.
  store_be<uint16_t>(at + 2, static_cast<uint16_t>(kIpv4HeaderBytes + udp_bytes));
  store_be<uint16_t>(at + 6, kDoNotFragment);
  at[8] = std::byte{kHopLimit};
  at[9] = std::byte{kProtocolUdp};
  std::memcpy(at + 12, addresses.source.address.data() + kIpv4AddressAt, 4);
  std::memcpy(at + 16, addresses.destination.address.data() + kIpv4AddressAt, 4);
  store_be<uint16_t>(at + 10, internet_checksum({at, kIpv4HeaderBytes}));
}

void write_ipv6(std::byte* at, const UdpFrameAddresses& addresses, uint32_t udp_bytes) {
  std::memset(at, 0, kIpv6HeaderBytes);
  at[0] = std::byte{0x60};  // Version 6.
  store_be<uint16_t>(at + 4, static_cast<uint16_t>(udp_bytes));
  at[6] = std::byte{kProtocolUdp};
  at[7] = std::byte{kHopLimit};
  std::memcpy(at + 8, addresses.source.address.data(), 16);
  std::memcpy(at + 24, addresses.destination.address.data(), 16);
}

/// `address_sum` is the word sum of both IP addresses, the greater part of the pseudo header.
void write_udp(std::byte* at, const UdpFrameAddresses& addresses,
               std::span<const std::byte> payload, uint64_t address_sum) {
  const auto udp_bytes = static_cast<uint32_t>(kUdpHeaderBytes + payload.size());
  store_be<uint16_t>(at, addresses.source.port);
  store_be<uint16_t>(at + 2, addresses.destination.port);
  store_be<uint16_t>(at + 4, static_cast<uint16_t>(udp_bytes));
  store_be<uint16_t>(at + 6, uint16_t{0});
  if (!payload.empty()) std::memcpy(at + kUdpHeaderBytes, payload.data(), payload.size());
  const uint64_t pseudo_header = address_sum + kProtocolUdp + udp_bytes;
  const uint16_t checksum = internet_checksum({at, udp_bytes}, pseudo_header);
  // 0 means "no checksum" (RFC 768); its other one's complement form is sent instead.
  store_be<uint16_t>(at + 6, checksum == 0 ? uint16_t{0xffff} : checksum);
}

}  // namespace

uint32_t build_udp_frame(const UdpFrameAddresses& addresses, std::span<const std::byte> payload,
                         std::span<std::byte> frame) {
  const bool ipv4 = addresses.source.is_ipv4();
  const uint32_t header_bytes = ipv4 ? kUdpFrameHeaderBytesIpv4 : kUdpFrameHeaderBytesIpv6;
  if (ipv4 != addresses.destination.is_ipv4() || payload.size() > kUdpPayloadBytesMax ||
      frame.size() < header_bytes + payload.size()) {
    return 0;
  }
  const auto udp_bytes = static_cast<uint32_t>(kUdpHeaderBytes + payload.size());
  std::byte* const ip = frame.data() + kEthernetHeaderBytes;
  write_ethernet(frame.data(), addresses, ipv4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
  if (ipv4) {
    write_ipv4(ip, addresses, udp_bytes);
    write_udp(ip + kIpv4HeaderBytes, addresses, payload, word_sum({ip + 12, 8}));
  } else {
    write_ipv6(ip, addresses, udp_bytes);
    write_udp(ip + kIpv6HeaderBytes, addresses, payload, word_sum({ip + 8, 32}));
  }
  return header_bytes + static_cast<uint32_t>(payload.size());
}

uint16_t internet_checksum(std::span<const std::byte> bytes, uint64_t initial) {
  uint64_t sum = initial + word_sum(bytes);
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(~sum);
}

}  // namespace tributary::io
