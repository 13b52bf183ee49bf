// SPDX-License-Identifier: Apache-2.0
#include "tofino/switchml_wire.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/byte_order.h"
#include "microcode/headers.h"

namespace tributary::tofino {
namespace {

using microcode::EthernetHeader;
using microcode::Ipv4Header;
using microcode::UdpHeader;

/// Elements by size code.
constexpr uint32_t kElements[] = {32, 64, 128, 256};

uint16_t ip_checksum(const std::byte* header) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < Ipv4Header::kBytes; i += 2) sum += load_be<uint16_t>(header + i);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void store_mac(std::byte* to, uint64_t mac) {
  store_be(to, static_cast<uint32_t>(mac >> 16));
  store_be(to + 4, static_cast<uint16_t>(mac));
}

uint64_t load_mac(const std::byte* from) {
  return uint64_t{load_be<uint32_t>(from)} << 16 | load_be<uint16_t>(from + 4);
}

}  // namespace

std::optional<uint32_t> switchml_size_code(uint32_t elements) {
  for (uint32_t code = 0; code < std::size(kElements); code++) {
    if (kElements[code] == elements) return code;
  }
  return std::nullopt;
}

std::optional<uint32_t> switchml_elements(uint32_t size_code) {
  if (size_code >= std::size(kElements)) return std::nullopt;
  return kElements[size_code];
}

std::vector<std::byte> switchml_payload(const SwitchmlMessage& message) {
  const auto code = switchml_size_code(static_cast<uint32_t>(message.elements.size()));
  TRIB_ASSERT(code.has_value());
  TRIB_ASSERT(message.slot <= kSwitchmlSlotMax);
  std::vector<std::byte> bytes(SwitchmlHeader::kBytes + 4 * message.elements.size());
  std::byte* header = bytes.data();
  SwitchmlHeader::MessageType::store(header, kSwitchmlMessageType);
  SwitchmlHeader::Size::store(header, *code);
  SwitchmlHeader::JobNumber::store(header, message.job_number);
  SwitchmlHeader::PacketId::store(header, byte_swapped(message.packet_id));
  SwitchmlHeader::Set::store(header, message.set ? 1 : 0);
  SwitchmlHeader::Slot::store(header, message.slot);
  SwitchmlHeader::Exponent0::store(header, static_cast<uint8_t>(message.exponent0));
  SwitchmlHeader::Exponent1::store(header, static_cast<uint8_t>(message.exponent1));
  std::byte* to = header + SwitchmlHeader::kBytes;
  for (const int32_t element : message.elements) {
    store_be(to, static_cast<uint32_t>(element));
    to += 4;
  }
  return bytes;
}

std::optional<SwitchmlMessage> parse_switchml(std::span<const std::byte> payload) {
  if (payload.size() < SwitchmlHeader::kBytes) return std::nullopt;
  const std::byte* header = payload.data();
  if (SwitchmlHeader::MessageType::load(header) != kSwitchmlMessageType) return std::nullopt;
  const auto elements = switchml_elements(SwitchmlHeader::Size::load(header));
  if (!elements || payload.size() < SwitchmlHeader::kBytes + size_t{4} * *elements) {
    return std::nullopt;
  }
  SwitchmlMessage message;
  message.job_number = static_cast<uint8_t>(SwitchmlHeader::JobNumber::load(header));
  message.packet_id = byte_swapped(SwitchmlHeader::PacketId::load(header));
  message.set = SwitchmlHeader::Set::load(header) != 0;
  message.slot = static_cast<uint16_t>(SwitchmlHeader::Slot::load(header));
  message.exponent0 = static_cast<int8_t>(SwitchmlHeader::Exponent0::load(header));
  message.exponent1 = static_cast<int8_t>(SwitchmlHeader::Exponent1::load(header));
  message.elements.resize(*elements);
  for (uint32_t i = 0; i < *elements; i++) {
    message.elements[i] =
        static_cast<int32_t>(load_be<uint32_t>(header + SwitchmlHeader::kBytes + 4 * i));
  }
  return message;
}

std::vector<std::byte> udp_frame(const FrameAddress& from, const FrameAddress& to,
                                 std::span<const std::byte> payload) {
  std::vector<std::byte> frame(kUdpFrameHeaderBytes + payload.size());
  std::byte* ethernet = frame.data();
  store_mac(ethernet, to.mac);
  store_mac(ethernet + 6, from.mac);
  EthernetHeader::EtherType::store(ethernet, microcode::kEtherTypeIpv4);
  std::byte* ip = ethernet + EthernetHeader::kBytes;
  Ipv4Header::Version::store(ip, 4);
  Ipv4Header::HeaderWords::store(ip, Ipv4Header::kBytes / 4);
  const auto udp_bytes = static_cast<uint32_t>(UdpHeader::kBytes + payload.size());
  Ipv4Header::TotalLength::store(ip, Ipv4Header::kBytes + udp_bytes);
  Ipv4Header::TimeToLive::store(ip, kSwitchmlTimeToLive);
  Ipv4Header::Protocol::store(ip, microcode::kIpProtocolUdp);
  Ipv4Header::SourceAddress::store(ip, from.ip);
  Ipv4Header::DestinationAddress::store(ip, to.ip);
  Ipv4Header::HeaderChecksum::store(ip, ip_checksum(ip));
  std::byte* udp = ip + Ipv4Header::kBytes;
  UdpHeader::SourcePort::store(udp, from.port);
  UdpHeader::DestinationPort::store(udp, to.port);
  UdpHeader::Length::store(udp, udp_bytes);
  std::copy(payload.begin(), payload.end(), frame.begin() + kUdpFrameHeaderBytes);
  return frame;
}

std::optional<UdpFrame> parse_udp_frame(std::span<const std::byte> frame) {
  if (frame.size() < kUdpFrameHeaderBytes) return std::nullopt;
  const std::byte* ethernet = frame.data();
  const std::byte* ip = ethernet + EthernetHeader::kBytes;
  const std::byte* udp = ip + Ipv4Header::kBytes;
  if (EthernetHeader::EtherType::load(ethernet) != microcode::kEtherTypeIpv4 ||
      Ipv4Header::Version::load(ip) != 4 ||
      Ipv4Header::HeaderWords::load(ip) != Ipv4Header::kBytes / 4 ||
      Ipv4Header::Protocol::load(ip) != microcode::kIpProtocolUdp) {
    return std::nullopt;
  }
  const uint32_t udp_bytes = UdpHeader::Length::load(udp);
  if (udp_bytes < UdpHeader::kBytes ||
      Ipv4Header::TotalLength::load(ip) != Ipv4Header::kBytes + udp_bytes ||
      frame.size() < kUdpFrameHeaderBytes - UdpHeader::kBytes + udp_bytes) {
    return std::nullopt;
  }
  UdpFrame parsed;
  parsed.to = {load_mac(ethernet), Ipv4Header::DestinationAddress::load(ip),
               static_cast<uint16_t>(UdpHeader::DestinationPort::load(udp))};
  parsed.from = {load_mac(ethernet + 6), Ipv4Header::SourceAddress::load(ip),
                 static_cast<uint16_t>(UdpHeader::SourcePort::load(udp))};
  parsed.time_to_live = static_cast<uint8_t>(Ipv4Header::TimeToLive::load(ip));
  parsed.udp_checksum = static_cast<uint16_t>(UdpHeader::Checksum::load(udp));
  parsed.ip_checksum_right = ip_checksum(ip) == 0;  // Over a right header the sum is all ones.
  parsed.payload = frame.subspan(kUdpFrameHeaderBytes, udp_bytes - UdpHeader::kBytes);
  return parsed;
}

}  // namespace tributary::tofino
