// SPDX-License-Identifier: Apache-2.0
/// @file
/// Captures for tests: written from plain lists of packets, read back, or random.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.h"

namespace tributary::testing {

struct TestPacket {
  int64_t at_ns = 0;
  std::vector<std::byte> bytes;
  uint32_t wire_bytes = 0;  ///< 0: bytes.size().
  friend bool operator==(const TestPacket&, const TestPacket&) = default;
};

void write_capture(const std::string& path, const std::vector<TestPacket>& packets);
/// Reads a whole capture. A damaged one fails the test.
[[nodiscard]] std::vector<TestPacket> read_capture(const std::string& path);

/// Returns an Ethernet frame of `size_bytes` whose IPv4 header has `header_words` words.
[[nodiscard]] std::vector<std::byte> ipv4_frame(uint32_t size_bytes, uint8_t header_words = 5);

/// Returns packets of all kinds: IPv4 with and without options, IPv6, ARP, noise, empty and cut
/// ones. Times advance by up to 2 us.
[[nodiscard]] std::vector<TestPacket> random_packets(Prng& prng, uint32_t count);

}  // namespace tributary::testing
