// SPDX-License-Identifier: Apache-2.0
#include "io/capture/link_layer.h"

#include <pcap/dlt.h>

#include <algorithm>

#include "base/byte_order.h"

namespace tributary::io {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kAddressBytes = 6;

/// Header of LINUX_SLL: type 2, ARPHRD 2, address size 2, address 8, protocol 2. Source: libpcap,
/// pcap/sll.h.
constexpr size_t kCookedBytes = 16;
constexpr size_t kCookedAddressSize = 4;
constexpr size_t kCookedAddress = 6;
constexpr size_t kCookedProtocol = 14;

/// Header of LINUX_SLL2: protocol 2, reserved 2, interface 4, ARPHRD 2, type 1, address size 1,
/// address 8. Source: libpcap, pcap/sll.h.
constexpr size_t kCooked2Bytes = 20;
constexpr size_t kCooked2AddressSize = 11;
constexpr size_t kCooked2Address = 12;
constexpr size_t kCooked2Protocol = 0;

constexpr uint16_t kEtherTypeIpv4 = 0x0800;
constexpr uint16_t kEtherTypeIpv6 = 0x86dd;

/// Returns the EtherType of an IP packet without a link layer; 0xffff (reserved) if it is neither.
uint16_t ip_type(std::span<const std::byte> packet) {
  const uint32_t version = packet.empty() ? 0 : std::to_integer<uint32_t>(packet[0]) >> 4;
  if (version == 4) return kEtherTypeIpv4;
  return version == 6 ? kEtherTypeIpv6 : 0xffff;
}

}  // namespace

const std::string& readable_link_types() {
  static const std::string kTypes =
      "EN10MB (Ethernet), LINUX_SLL and LINUX_SLL2 (tcpdump -i any), RAW, IPV4 and IPV6 (plain IP)";
  return kTypes;
}

std::optional<LinkLayer> LinkLayer::of(int link_type) {
  switch (link_type) {
    case DLT_EN10MB:
      return LinkLayer(Kind::kEthernet);
    case DLT_LINUX_SLL:
      return LinkLayer(Kind::kCooked);
    case DLT_LINUX_SLL2:
      return LinkLayer(Kind::kCooked2);
    case DLT_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
      return LinkLayer(Kind::kIp);
    default:
      return std::nullopt;
  }
}

void LinkLayer::write_addresses(std::span<const std::byte> source) {
  std::fill_n(frame_.begin(), kEthernetBytes, std::byte{0});
  std::copy_n(source.begin(), std::min(source.size(), kAddressBytes),
              frame_.begin() + kAddressBytes);
}

void LinkLayer::write_ether_type(uint16_t type) { store_be(&frame_[2 * kAddressBytes], type); }

LinkLayer::Frame LinkLayer::to_ethernet(std::span<const std::byte> packet, uint32_t wire_bytes) {
  if (kind_ == Kind::kEthernet) return {.bytes = packet, .wire_bytes = wire_bytes};
  size_t header = 0;
  if (kind_ == Kind::kCooked) header = kCookedBytes;
  if (kind_ == Kind::kCooked2) header = kCooked2Bytes;
  const size_t payload_on_wire = wire_bytes - std::min<size_t>(wire_bytes, header);
  const auto frame_on_wire =
      static_cast<uint32_t>(std::min<size_t>(kEthernetBytes + payload_on_wire, UINT32_MAX));
  if (packet.size() < header) return {.bytes = {}, .wire_bytes = frame_on_wire};

  const auto payload = packet.subspan(header);
  frame_.resize(kEthernetBytes + payload.size());
  std::copy(payload.begin(), payload.end(), frame_.begin() + kEthernetBytes);
  switch (kind_) {
    case Kind::kCooked: {
      const size_t size = load_be<uint16_t>(&packet[kCookedAddressSize]);
      write_addresses(packet.subspan(kCookedAddress, std::min<size_t>(size, 8)));
      write_ether_type(load_be<uint16_t>(&packet[kCookedProtocol]));
      break;
    }
    case Kind::kCooked2: {
      const auto size = std::to_integer<size_t>(packet[kCooked2AddressSize]);
      write_addresses(packet.subspan(kCooked2Address, std::min<size_t>(size, 8)));
      write_ether_type(load_be<uint16_t>(&packet[kCooked2Protocol]));
      break;
    }
    default:
      write_addresses({});
      write_ether_type(ip_type(packet));
  }
  return {.bytes = frame_, .wire_bytes = frame_on_wire};
}

}  // namespace tributary::io
