// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pcapng file for tests: one Ethernet interface with times in nanoseconds, and one packet.
///
/// Source: IETF draft-ietf-opsawg-pcapng, §4.1 to §4.3.
#pragma once

#include <cstdint>
#include <string>

namespace tributary::testing {

/// Appends the lowest `bytes` bytes of a number, least significant first.
inline void put_little(std::string& to, uint64_t value, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) to += static_cast<char>(value >> 8 * i & 255);
}

/// Returns a block with its type and lengths. @param body A multiple of four bytes.
inline std::string pcapng_block(uint32_t type, const std::string& body) {
  std::string block;
  const auto size = static_cast<uint32_t>(body.size() + 12);
  put_little(block, type, 4);
  put_little(block, size, 4);
  block += body;
  put_little(block, size, 4);
  return block;
}

/// Returns a file with one packet of eight zero bytes.
/// @param offset_s Seconds that count in addition to each time (if_tsoffset).
inline std::string pcapng_file(uint64_t at_ns, int64_t offset_s) {
  std::string section, interface, packet;
  put_little(section, 0x1a2b3c4d, 4);
  put_little(section, 1, 4);  // Version 1.0.
  put_little(section, UINT64_MAX, 8);
  put_little(interface, 1, 4);  // Ethernet.
  put_little(interface, 0x40000, 4);
  put_little(interface, 0x0001'0009, 4);  // if_tsresol, one byte: 10^-9 s.
  put_little(interface, 9, 4);
  put_little(interface, 0x0008'000e, 4);  // if_tsoffset, eight bytes.
  put_little(interface, static_cast<uint64_t>(offset_s), 8);
  put_little(interface, 0, 4);  // End of the options.
  put_little(packet, 0, 4);
  put_little(packet, at_ns >> 32, 4);
  put_little(packet, at_ns, 4);
  put_little(packet, 8, 4);
  put_little(packet, 8, 4);
  put_little(packet, 0, 8);
  return pcapng_block(0x0a0d0d0a, section) + pcapng_block(1, interface) + pcapng_block(6, packet);
}

}  // namespace tributary::testing
