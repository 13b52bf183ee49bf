// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Internet checksum of IPv4, UDP, ICMP and IGMP.
///
/// Model:   One's complement sum of big-endian 16-bit words; an odd last byte is padded with 0.
///          Sums of parts may be added if every part but the last has an even length. So a
///          payload's sum is computed once and serves every header before it.
/// Threads: Pure functions.
/// Source:  RFC 1071.
/// Tests:   tests/base/internet_checksum_test.cc, tests/io/frames/udp_frame_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary {

/// Returns the sum of the words of `bytes`, folded to 16 bits; 0 only if all bytes are 0.
[[nodiscard]] uint16_t word_sum(std::span<const std::byte> bytes);

/// Adds the carries of `sum` back until it fits 16 bits.
[[nodiscard]] constexpr uint16_t fold_sum(uint64_t sum) {
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(sum);
}
static_assert(fold_sum(0x1fffe) == 0xffff);

/// Returns the checksum: the one's complement of the sum over `initial` (such as a pseudo header's
/// sum) and `bytes`.
[[nodiscard]] uint16_t internet_checksum(std::span<const std::byte> bytes, uint64_t initial = 0);

}  // namespace tributary
