// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Internet checksum of IPv4, UDP, ICMP and IGMP.
///
/// Model:   One's complement sum of big-endian 16-bit words, an odd last byte padded with 0.
///          Sums of parts may be added as long as every part but the last has an even length, so
///          the sum of a payload is made once and serves every header that is put in front of it.
/// Threads: Pure functions.
/// Source:  RFC 1071.
/// Tests:   tests/base/internet_checksum_test.cc, tests/io/frames/udp_frame_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary {

/// The sum of the words of `bytes`, folded to 16 bits; 0 only for bytes that are all 0.
[[nodiscard]] uint16_t word_sum(std::span<const std::byte> bytes);

/// `sum` with its carries added back until it fits 16 bits.
[[nodiscard]] constexpr uint16_t fold_sum(uint64_t sum) {
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(sum);
}
static_assert(fold_sum(0x1fffe) == 0xffff);

/// The checksum: one's complement of the sum. `initial` is added first, as from a pseudo header.
[[nodiscard]] uint16_t internet_checksum(std::span<const std::byte> bytes, uint64_t initial = 0);

}  // namespace tributary
