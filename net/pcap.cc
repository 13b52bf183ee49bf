// SPDX-License-Identifier: Apache-2.0
#include "net/pcap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/errno_text.h"
#include "base/internet_checksum.h"
#include "base/time.h"
#include "wire/frame_headers.h"
#include "wire/headers.h"

namespace tributary::net {
namespace {

using wire::EthernetHeader;
using wire::Ipv4Header;
using wire::Ipv6Header;
using wire::UdpHeader;
using Bytes = std::vector<std::byte>;

constexpr uint32_t kMagicNanoseconds = 0xa1b23c4d;
constexpr uint32_t kMagicMicroseconds = 0xa1b2c3d4;  // Other programs' captures.
constexpr uint16_t kVersionMajor = 2;
constexpr uint16_t kVersionMinor = 4;
constexpr uint32_t kSnapBytes = 262'144;  // tcpdump's limit.
constexpr uint32_t kLinkTypeEthernet = 1;
constexpr uint32_t kEct0 = 2;  // ECN field: capable (RFC 3168 §5).
constexpr uint32_t kCe = 3;    // ECN field: marked.

/// Appends an integer in this machine's byte order, which the magic number tells readers.
template <class T>
void append(Bytes& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Returns a group's MAC address, or 02-00 and the address's last four bytes.
wire::MacAddress mac_of(const Endpoint& endpoint) {
  if (endpoint.is_multicast()) return wire::multicast_mac(endpoint);
  wire::MacAddress mac{0x02, 0x00};
  std::copy(endpoint.address.end() - 4, endpoint.address.end(), mac.begin() + 2);
  return mac;
}

/// Returns all headers of the packet's frame.
Bytes frame_headers(const Packet& packet) {
  const bool ipv4 = packet.source.is_ipv4() && packet.destination.is_ipv4();
  const uint32_t ip_bytes = ipv4 ? Ipv4Header::kBytes : Ipv6Header::kBytes;
  const uint32_t udp_bytes = UdpHeader::kBytes + packet.size_bytes;
  const uint32_t ecn = packet.congestion_experienced ? kCe : kEct0;
  Bytes frame(EthernetHeader::kBytes + ip_bytes + UdpHeader::kBytes);
  std::byte* const ip = frame.data() + EthernetHeader::kBytes;
  std::byte* const udp = ip + ip_bytes;
  wire::write_ethernet(frame.data(), mac_of(packet.destination), mac_of(packet.source),
                       ipv4 ? wire::kEtherTypeIpv4 : wire::kEtherTypeIpv6);
  const auto write_ip = ipv4 ? wire::write_ipv4 : wire::write_ipv6;
  write_ip(ip, packet.source, packet.destination, wire::kIpProtocolUdp, wire::kHopLimit, udp_bytes,
           ecn);
  wire::write_udp(udp, packet.source.port, packet.destination.port, packet.size_bytes);
  // Elided bytes count as zeros and add nothing to the sum.
  UdpHeader::Checksum::store(udp, wire::udp_checksum(udp, packet.source, packet.destination,
                                                     packet.size_bytes, word_sum(packet.stored)));
  return frame;
}

/// Returns whether the first bytes of a file are those of a capture, in either byte order.
bool is_capture(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  uint32_t magic = 0;
  if (!file.read(reinterpret_cast<char*>(&magic), sizeof magic)) return false;
  for (const uint32_t known : {kMagicNanoseconds, kMagicMicroseconds}) {
    if (magic == known || magic == __builtin_bswap32(known)) return true;
  }
  return false;
}

/// Refuses to overwrite a file that has another content. Paths may come from a scenario file that
/// somebody else has written.
Result<void> check_replaceable(const std::string& path) {
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(path, none);
  const bool has_content =
      std::filesystem::is_regular_file(status) && std::filesystem::file_size(path, none) > 0;
  if (!std::filesystem::is_block_file(status) && (!has_content || is_capture(path))) return {};
  return failure(
      fmt::format("{}: exists and is not a capture; allowed: a new file, an empty one, or a pcap "
                  "file to replace",
                  path));
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
  Bytes frame = frame_headers(packet);
  const uint64_t original = frame.size() + packet.size_bytes;
  frame.insert(frame.end(), packet.stored.begin(), packet.stored.end());
  if (frame.size() > kSnapBytes) frame.resize(kSnapBytes);

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
  if (const auto good = check_replaceable(path); !good) return tl::unexpected(good.error());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::vector<std::byte> header = pcap_file_header();
  file.write(reinterpret_cast<const char*>(header.data()),
             static_cast<std::streamsize>(header.size()));
  if (!file.flush()) {
    return system_failure(errno, fmt::format("{}: cannot be written", path));
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
  if (file_.fail()) return failure(fmt::format("{}: could not be written completely", path_));
  return {};
}

}  // namespace tributary::net
