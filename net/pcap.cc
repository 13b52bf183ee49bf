// SPDX-License-Identifier: Apache-2.0
#include "net/pcap.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "base/internet_checksum.h"
#include "microcode/headers.h"

namespace tributary::net {
namespace {

using microcode::EthernetHeader;
using microcode::Ipv4Header;
using microcode::Ipv6Header;
using microcode::UdpHeader;
using Bytes = std::vector<std::byte>;

constexpr uint32_t kMagicNanoseconds = 0xa1b23c4d;
constexpr uint16_t kVersionMajor = 2;
constexpr uint16_t kVersionMinor = 4;
constexpr uint32_t kSnapBytes = 262'144;  // tcpdump's own limit.
constexpr uint32_t kLinkTypeEthernet = 1;
constexpr uint32_t kEct0 = 2;  // ECN field: capable,
constexpr uint32_t kCe = 3;    // and marked (RFC 3168 §5).
constexpr uint8_t kHops = 64;
constexpr uint32_t kAddressBytes = 16;
constexpr uint32_t kIpv4AddressBytes = 4;

/// Fields that no program looks at, so microcode/headers.h does not have them.
using Ipv4Ecn = microcode::Field<Ipv4Header::kBytes, 14, 2>;
using Ipv4DontFragment = microcode::Field<Ipv4Header::kBytes, 49, 1>;
using Ipv6Ecn = microcode::Field<Ipv6Header::kBytes, 10, 2>;
using Ipv6HopLimit = microcode::Field<Ipv6Header::kBytes, 56, 8>;
constexpr uint32_t kIpv6DestinationByte = Ipv6Header::kSourceByte + kAddressBytes;

/// Appends an integer in this machine's order, which the magic number tells.
template <class T>
void append(Bytes& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// A length as headers hold it: 0 for one that does not fit.
uint32_t length_field(uint64_t size_bytes) {
  return size_bytes <= UINT16_MAX ? static_cast<uint32_t>(size_bytes) : 0;
}

std::span<const std::byte> address_bytes(const Endpoint& endpoint, bool ipv4) {
  const auto all = std::as_bytes(std::span(endpoint.address));
  return ipv4 ? all.last(kIpv4AddressBytes) : all;
}

/// 02-00 and the address's last four bytes; a group's as RFC 1112 and RFC 2464 have it.
void store_mac(std::byte* to, const Endpoint& endpoint, bool ipv4) {
  std::memcpy(to + 2, endpoint.address.data() + kAddressBytes - 4, 4);
  to[0] = std::byte{0x02};
  to[1] = std::byte{0x00};
  if (!endpoint.is_multicast()) return;
  to[0] = ipv4 ? std::byte{0x01} : std::byte{0x33};
  to[1] = ipv4 ? std::byte{0x00} : std::byte{0x33};
  if (!ipv4) return;
  to[2] = std::byte{0x5e};
  to[3] &= std::byte{0x7f};
}

void append_ethernet(Bytes& frame, const Packet& packet, bool ipv4) {
  const size_t at = frame.size();
  frame.resize(at + EthernetHeader::kBytes);
  std::byte* header = frame.data() + at;
  store_mac(header, packet.destination, ipv4);
  store_mac(header + 6, packet.source, ipv4);
  EthernetHeader::EtherType::store(header,
                                   ipv4 ? microcode::kEtherTypeIpv4 : microcode::kEtherTypeIpv6);
}

void append_ipv4(Bytes& frame, const Packet& packet) {
  const size_t at = frame.size();
  frame.resize(at + Ipv4Header::kBytes);
  std::byte* header = frame.data() + at;
  Ipv4Header::Version::store(header, 4);
  Ipv4Header::HeaderWords::store(header, Ipv4Header::kBytes / 4);
  Ipv4Ecn::store(header, packet.congestion_experienced ? kCe : kEct0);
  Ipv4Header::TotalLength::store(
      header, length_field(uint64_t{packet.size_bytes} + Ipv4Header::kBytes + UdpHeader::kBytes));
  Ipv4DontFragment::store(header, 1);
  Ipv4Header::TimeToLive::store(header, kHops);
  Ipv4Header::Protocol::store(header, microcode::kIpProtocolUdp);
  Ipv4Header::SourceAddress::store(header,
                                   load_be<uint32_t>(address_bytes(packet.source, true).data()));
  Ipv4Header::DestinationAddress::store(
      header, load_be<uint32_t>(address_bytes(packet.destination, true).data()));
  Ipv4Header::HeaderChecksum::store(header, internet_checksum({header, Ipv4Header::kBytes}));
}

void append_ipv6(Bytes& frame, const Packet& packet) {
  const size_t at = frame.size();
  frame.resize(at + Ipv6Header::kBytes);
  std::byte* header = frame.data() + at;
  Ipv6Header::Version::store(header, 6);
  Ipv6Ecn::store(header, packet.congestion_experienced ? kCe : kEct0);
  Ipv6Header::PayloadLength::store(header,
                                   length_field(uint64_t{packet.size_bytes} + UdpHeader::kBytes));
  Ipv6Header::NextHeader::store(header, microcode::kIpProtocolUdp);
  Ipv6HopLimit::store(header, kHops);
  std::memcpy(header + Ipv6Header::kSourceByte, packet.source.address.data(), kAddressBytes);
  std::memcpy(header + kIpv6DestinationByte, packet.destination.address.data(), kAddressBytes);
}

void append_udp(Bytes& frame, const Packet& packet, bool ipv4) {
  const size_t at = frame.size();
  frame.resize(at + UdpHeader::kBytes);
  std::byte* header = frame.data() + at;
  const uint64_t size_bytes = uint64_t{packet.size_bytes} + UdpHeader::kBytes;
  UdpHeader::SourcePort::store(header, packet.source.port);
  UdpHeader::DestinationPort::store(header, packet.destination.port);
  UdpHeader::Length::store(header, length_field(size_bytes));
  // The pseudo header: addresses, protocol and length. Elided bytes are zeros and add nothing.
  const uint16_t checksum = internet_checksum(
      {header, UdpHeader::kBytes}, uint64_t{word_sum(packet.stored)} +
                                       word_sum(address_bytes(packet.source, ipv4)) +
                                       word_sum(address_bytes(packet.destination, ipv4)) +
                                       microcode::kIpProtocolUdp + size_bytes);
  UdpHeader::Checksum::store(header, checksum == 0 ? UINT16_MAX : checksum);
}

}  // namespace

std::vector<std::byte> pcap_file_header() {
  Bytes header;
  append(header, kMagicNanoseconds);
  append(header, kVersionMajor);
  append(header, kVersionMinor);
  append(header, uint32_t{0});  // Time zone and accuracy: unused.
  append(header, uint32_t{0});
  append(header, kSnapBytes);
  append(header, kLinkTypeEthernet);
  return header;
}

std::vector<std::byte> pcap_record(Instant at, const Packet& packet) {
  const bool ipv4 = packet.source.is_ipv4() && packet.destination.is_ipv4();
  Bytes frame;
  append_ethernet(frame, packet, ipv4);
  ipv4 ? append_ipv4(frame, packet) : append_ipv6(frame, packet);
  append_udp(frame, packet, ipv4);
  const uint64_t original = frame.size() + packet.size_bytes;
  frame.insert(frame.end(), packet.stored.begin(), packet.stored.end());
  if (frame.size() > kSnapBytes) frame.resize(kSnapBytes);

  constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
  const int64_t nanoseconds_passed = in_nanoseconds(at.since_start());
  Bytes record;
  append(record, static_cast<uint32_t>(nanoseconds_passed / kNanosecondsPerSecond));
  append(record, static_cast<uint32_t>(nanoseconds_passed % kNanosecondsPerSecond));
  append(record, static_cast<uint32_t>(frame.size()));
  append(record, static_cast<uint32_t>(std::min<uint64_t>(original, UINT32_MAX)));
  record.insert(record.end(), frame.begin(), frame.end());
  return record;
}

PcapWriter::PcapWriter(std::string path, std::ofstream file)
    : path_(std::move(path)), file_(std::move(file)) {}

Result<PcapWriter> PcapWriter::open(const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::vector<std::byte> header = pcap_file_header();
  file.write(reinterpret_cast<const char*>(header.data()),
             static_cast<std::streamsize>(header.size()));
  if (!file.flush()) {
    return failure(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  }
  return PcapWriter(path, std::move(file));
}

void PcapWriter::write(Instant at, const Packet& packet) {
  const std::vector<std::byte> record = pcap_record(at, packet);
  file_.write(reinterpret_cast<const char*>(record.data()),
              static_cast<std::streamsize>(record.size()));
  packet_count_++;
}

void PcapWriter::attach(Network& network, LinkId link) {
  network.set_tap(link, [this](Instant at, const Packet& packet) { write(at, packet); });
}

Result<void> PcapWriter::finish() {
  file_.close();
  if (file_.fail()) return failure(fmt::format("{}: could not be written to its end", path_));
  return {};
}

}  // namespace tributary::net
