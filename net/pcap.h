// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a link carries, as a capture file that Wireshark and tcpdump open.
///
/// Shapes:  Classic pcap with times in nanoseconds (magic 0xa1b23c4d), Ethernet frames without FCS.
///          Ethernet, IPv4 or IPv6, and UDP headers are made up around the payload, with right
///          lengths and checksums. MAC addresses are made from the IP addresses.
///          Of an elided packet only the stored bytes are in the file, and its original length is
///          the whole; its UDP checksum counts the rest as zeros. A marked packet is CE, others
///          ECT(0) (RFC 3168). Lengths that IP cannot hold are written as 0, as captures of
///          segmentation offload do.
/// Units:   Virtual time 0 is 1970-01-01 00:00 UTC; ticks of 10 ps are cut to nanoseconds. A packet
///          stands at the time at which its last bit leaves.
/// Trains:  A packet that stands for k is in the file once.
/// Threads: One.
/// Errors:  A file that cannot be written is refused by open(), and by finish() later on.
/// Source:  draft-ietf-opsawg-pcap, RFC 791, 768, 8200, 1071 (checksum), 1112 (multicast MAC).
/// Tests:   tests/net/pcap_test.cc
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/network.h"

namespace tributary::net {

/// The header of a file, and each packet as a record. Pure; for the writer and for tests.
[[nodiscard]] std::vector<std::byte> pcap_file_header();
[[nodiscard]] std::vector<std::byte> pcap_record(Instant at, const Packet& packet);

class PcapWriter {
 public:
  /// Begins the file. Refuses a path that cannot be written.
  [[nodiscard]] static Result<PcapWriter> open(const std::string& path);

  /// Times must not go back within a file, so one file holds one link.
  void write(Instant at, const Packet& packet);
  /// Captures what `link` carries from now on. The writer must outlive the network's run.
  void attach(Network& network, LinkId link);
  /// Ends the file. Refuses if anything could not be written.
  [[nodiscard]] Result<void> finish();

  [[nodiscard]] uint64_t packet_count() const { return packet_count_; }

 private:
  PcapWriter(std::string path, std::ofstream file);

  std::string path_;
  std::ofstream file_;
  uint64_t packet_count_ = 0;
};

}  // namespace tributary::net
