// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/udp_frame.h"

#include <algorithm>

#include "base/byte_order.h"
#include "base/internet_checksum.h"
#include "wire/frame_headers.h"
#include "wire/headers.h"
#include "wire/switchml.h"

namespace tributary::tofino {

using wire::EthernetHeader;
using wire::Ipv4Header;
using wire::UdpHeader;

namespace {

wire::MacAddress mac_of(uint64_t low_48_bits) {
  wire::MacAddress mac{};
  for (uint32_t i = 0; i < mac.size(); i++)
    mac[i] = static_cast<uint8_t>(low_48_bits >> (40 - 8 * i));
  return mac;
}

uint64_t load_mac(const std::byte* from) {
  return uint64_t{load_be<uint32_t>(from)} << 16 | load_be<uint16_t>(from + 4);
}

}  // namespace

std::array<std::byte, kUdpFrameHeaderBytes> udp_frame_header(const FrameAddress& from,
                                                             const FrameAddress& to,
                                                             uint32_t payload_bytes) {
  std::array<std::byte, kUdpFrameHeaderBytes> frame{};
  std::byte* const ip = frame.data() + EthernetHeader::kBytes;
  wire::write_ethernet(frame.data(), mac_of(to.mac), mac_of(from.mac), wire::kEtherTypeIpv4);
  wire::write_ipv4(ip, Endpoint::ipv4(from.ip, from.port), Endpoint::ipv4(to.ip, to.port),
                   wire::kIpProtocolUdp, wire::kSwitchmlTimeToLive,
                   UdpHeader::kBytes + payload_bytes);
  wire::write_udp(ip + Ipv4Header::kBytes, from.port, to.port, payload_bytes);
  return frame;
}

std::vector<std::byte> udp_frame(const FrameAddress& from, const FrameAddress& to,
                                 std::span<const std::byte> payload) {
  const auto header = udp_frame_header(from, to, static_cast<uint32_t>(payload.size()));
  std::vector<std::byte> frame(header.begin(), header.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

std::optional<UdpFrame> parse_udp_frame(std::span<const std::byte> frame, uint32_t size_bytes) {
  if (frame.size() < kUdpFrameHeaderBytes) return std::nullopt;
  const std::byte* ethernet = frame.data();
  const std::byte* ip = ethernet + EthernetHeader::kBytes;
  const std::byte* udp = ip + Ipv4Header::kBytes;
  if (EthernetHeader::EtherType::load(ethernet) != wire::kEtherTypeIpv4 ||
      Ipv4Header::Version::load(ip) != 4 ||
      Ipv4Header::HeaderWords::load(ip) != Ipv4Header::kBytes / 4 ||
      Ipv4Header::Protocol::load(ip) != wire::kIpProtocolUdp) {
    return std::nullopt;
  }
  const uint32_t udp_bytes = UdpHeader::Length::load(udp);
  if (udp_bytes < UdpHeader::kBytes ||
      Ipv4Header::TotalLength::load(ip) != Ipv4Header::kBytes + udp_bytes ||
      size_bytes < kUdpFrameHeaderBytes - UdpHeader::kBytes + udp_bytes) {
    return std::nullopt;
  }
  UdpFrame parsed;
  parsed.to = {load_mac(ethernet), Ipv4Header::DestinationAddress::load(ip),
               static_cast<uint16_t>(UdpHeader::DestinationPort::load(udp))};
  parsed.from = {load_mac(ethernet + 6), Ipv4Header::SourceAddress::load(ip),
                 static_cast<uint16_t>(UdpHeader::SourcePort::load(udp))};
  parsed.time_to_live = static_cast<uint8_t>(Ipv4Header::TimeToLive::load(ip));
  parsed.udp_checksum = static_cast<uint16_t>(UdpHeader::Checksum::load(udp));
  // A correct header sums to all ones.
  parsed.ip_checksum_right = internet_checksum({ip, Ipv4Header::kBytes}) == 0;
  parsed.payload_bytes = udp_bytes - UdpHeader::kBytes;
  const auto stored = frame.subspan(kUdpFrameHeaderBytes);
  parsed.payload = stored.first(std::min<size_t>(stored.size(), parsed.payload_bytes));
  return parsed;
}

}  // namespace tributary::tofino
