// SPDX-License-Identifier: Apache-2.0
/// @file
/// Captures a link's packets in a file that Wireshark and tcpdump open.
///
/// Shapes:  Classic pcap with times in nanoseconds (magic 0xa1b23c4d), Ethernet frames without FCS.
/// Units:   Virtual time 0 is 1970-01-01 00:00 UTC; ticks of 10 ps are cut to nanoseconds. A
///          packet's time is the time at which its last bit leaves.
/// Trains:  A packet that stands for k is in the file once.
/// Threads: One.
/// Errors:  open() refuses a file that cannot be written or that is another file; finish() reports
///          a later write error.
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

/// Return the file's header, and a packet as a record. Pure; for the writer and for tests.
///
/// - Ethernet, IPv4 or IPv6, and UDP headers are made up around the payload, with right lengths and
///   checksums. MAC addresses are made from the IP addresses.
/// - The file has only the stored bytes of an elided packet, but its whole original length. The UDP
///   checksum counts the missing bytes as zeros.
/// - A marked packet is CE, others are ECT(0) (RFC 3168).
/// - A length that IP cannot hold is written as 0, as captures of segmentation offload do.
[[nodiscard]] std::vector<std::byte> pcap_file_header();
[[nodiscard]] std::vector<std::byte> pcap_record(Instant at, const Packet& packet);

class PcapWriter {
 public:
  /// Creates the file, or replaces an older capture. Refuses a path that cannot be written, a block
  /// device, and a file with content that is not a pcap file.
  [[nodiscard]] static Result<PcapWriter> open(const std::string& path);

  /// Writes a packet. Times must not decrease within a file, so one file holds one link.
  void write(Instant at, const Packet& packet);
  /// Captures the packets that `link` carries after this call. The writer must outlive the run.
  void attach(Network& network, LinkId link);
  /// Closes the file. @return an Error if any write failed.
  [[nodiscard]] Result<void> finish();

  [[nodiscard]] uint64_t packet_count() const { return packet_count_; }

 private:
  PcapWriter(std::string path, std::ofstream file);

  std::string path_;
  std::ofstream file_;
  uint64_t packet_count_ = 0;
};

}  // namespace tributary::net
