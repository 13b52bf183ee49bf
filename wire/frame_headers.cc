// SPDX-License-Identifier: Apache-2.0
#include "wire/frame_headers.h"

#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "base/endpoint.h"
#include "base/internet_checksum.h"

namespace tributary::wire {
namespace {

constexpr uint16_t kDoNotFragment = 0x4000;
/// In IPv6 the byte that ends with the ECN bits lies four bits further on (RFC 8200 §3).
constexpr uint32_t kTrafficClassShift = 4;

/// Returns the bytes of the address in its family's wire format.
std::span<const std::byte> wire_address(const Endpoint& endpoint, bool ipv4) {
  const auto bytes = std::as_bytes(std::span(endpoint.address));
  return ipv4 ? bytes.subspan(kMappedPrefixBytes) : bytes;
}

uint16_t length_field(uint64_t size_bytes) {
  return size_bytes <= UINT16_MAX ? static_cast<uint16_t>(size_bytes) : 0;
}

}  // namespace

MacAddress multicast_mac(const Endpoint& group) {
  const auto& a = group.address;
  if (group.is_ipv4()) {
    return {0x01, 0x00, 0x5e, static_cast<uint8_t>(a[13] & 0x7f), a[14], a[15]};
  }
  return {0x33, 0x33, a[12], a[13], a[14], a[15]};
}

void write_ethernet(std::byte* at, const MacAddress& destination, const MacAddress& source,
                    uint32_t ether_type) {
  std::memcpy(at, destination.data(), destination.size());
  std::memcpy(at + 6, source.data(), source.size());
  EthernetHeader::EtherType::store(at, ether_type);
}

void write_ipv4(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t protocol, uint8_t time_to_live, uint32_t payload_bytes, uint32_t ecn) {
  std::memset(at, 0, Ipv4Header::kBytes);
  at[0] = std::byte{0x45};  // Version 4, five words of header.
  at[1] = static_cast<std::byte>(ecn);
  store_be(at + 2, length_field(uint64_t{Ipv4Header::kBytes} + payload_bytes));
  store_be<uint16_t>(at + 6, kDoNotFragment);
  at[8] = std::byte{time_to_live};
  at[9] = static_cast<std::byte>(protocol);
  std::memcpy(at + 12, source.address.data() + kMappedPrefixBytes, 4);
  std::memcpy(at + 16, destination.address.data() + kMappedPrefixBytes, 4);
  store_be<uint16_t>(at + 10, internet_checksum({at, Ipv4Header::kBytes}));
}

void write_ipv6(std::byte* at, const Endpoint& source, const Endpoint& destination,
                uint32_t next_header, uint8_t hop_limit, uint32_t payload_bytes, uint32_t ecn) {
  std::memset(at, 0, Ipv6Header::kBytes);
  at[0] = std::byte{0x60};  // Version 6.
  at[1] = static_cast<std::byte>(ecn << kTrafficClassShift);
  store_be(at + 4, length_field(payload_bytes));
  at[6] = static_cast<std::byte>(next_header);
  at[7] = std::byte{hop_limit};
  std::memcpy(at + 8, source.address.data(), 16);
  std::memcpy(at + 24, destination.address.data(), 16);
}

void write_udp(std::byte* at, uint16_t source_port, uint16_t destination_port,
               uint32_t payload_bytes) {
  store_be(at, source_port);
  store_be(at + 2, destination_port);
  store_be(at + 4, length_field(uint64_t{UdpHeader::kBytes} + payload_bytes));
  store_be(at + 6, uint16_t{0});
}

uint64_t pseudo_header_sum(const Endpoint& source, const Endpoint& destination, uint32_t protocol,
                           uint32_t payload_bytes) {
  const bool ipv4 = source.is_ipv4() && destination.is_ipv4();
  return uint64_t{word_sum(wire_address(source, ipv4))} +
         word_sum(wire_address(destination, ipv4)) + protocol + payload_bytes;
}

uint16_t udp_checksum(const std::byte* header, const Endpoint& source, const Endpoint& destination,
                      uint32_t payload_bytes, uint16_t payload_sum) {
  const uint64_t pseudo =
      pseudo_header_sum(source, destination, kIpProtocolUdp, UdpHeader::kBytes + payload_bytes);
  const uint16_t sum = internet_checksum({header, UdpHeader::kBytes}, pseudo + payload_sum);
  // 0 means "no checksum" (RFC 768), so send the other one's complement form of zero.
  return sum == 0 ? uint16_t{0xffff} : sum;
}

}  // namespace tributary::wire
