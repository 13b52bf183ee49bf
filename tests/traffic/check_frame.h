// SPDX-License-Identifier: Apache-2.0
/// @file
/// An independent reader of generated frames: it adds up 16-bit words itself, so that it shares no
/// code with the builder's checksum.
///
/// Errors:  Adds test failures.
/// Tests:   tests/traffic/frame_builder_test.cc
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "traffic/frame_builder.h"

namespace tributary::testing {

inline uint32_t byte_at(std::span<const std::byte> bytes, size_t index) {
  return std::to_integer<uint32_t>(bytes[index]);
}
inline uint32_t word_at(std::span<const std::byte> bytes, size_t index) {
  return byte_at(bytes, index) << 8 | byte_at(bytes, index + 1);
}

/// Returns the one's complement sum of the bytes: 0xffff over data with a right checksum.
inline uint32_t plain_sum(std::span<const std::byte> bytes, uint32_t initial = 0) {
  uint64_t sum = initial;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    sum += byte_at(bytes, i) << 8 | (i + 1 < bytes.size() ? byte_at(bytes, i + 1) : 0);
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint32_t>(sum);
}

/// The fields of a frame that tests read.
struct ReadFrame {
  bool ipv6 = false;
  uint32_t protocol = 0;
  uint32_t ip_bytes = 0;
  uint32_t tcp_flags = 0;
  uint32_t sequence_number = 0;
  uint32_t payload_bytes = 0;
};

/// Checks every length and checksum of a frame.
inline ReadFrame check_frame(std::span<const std::byte> frame) {
  ReadFrame read;
  EXPECT_GE(frame.size(), traffic::kFrameBytesMin);
  EXPECT_LE(frame.size(), traffic::kFrameBytesMax);
  const uint32_t ether_type = word_at(frame, 12);
  read.ipv6 = ether_type == 0x86dd;
  EXPECT_TRUE(read.ipv6 || ether_type == 0x0800);
  const auto ip = frame.subspan(14);
  const uint32_t header = read.ipv6 ? 40 : 20;
  read.protocol = byte_at(ip, read.ipv6 ? 6 : 9);
  read.ip_bytes = read.ipv6 ? 40 + word_at(ip, 4) : word_at(ip, 2);
  EXPECT_EQ(frame.size(), std::max<size_t>(14 + read.ip_bytes, traffic::kFrameBytesMin));
  if (!read.ipv6) {
    EXPECT_EQ(byte_at(ip, 0), 0x45U);
    EXPECT_EQ(plain_sum(ip.first(20)), 0xffffU);
  }

  const auto segment = ip.subspan(header, read.ip_bytes - header);
  const auto addresses = read.ipv6 ? ip.subspan(8, 32) : ip.subspan(12, 8);
  const uint32_t pseudo =
      plain_sum(addresses) + read.protocol + static_cast<uint32_t>(segment.size());
  EXPECT_EQ(plain_sum(segment, pseudo), 0xffffU);
  if (read.protocol == 6) {
    EXPECT_EQ(byte_at(segment, 12), 0x50U);
    read.sequence_number = word_at(segment, 4) << 16 | word_at(segment, 6);
    read.tcp_flags = byte_at(segment, 13);
    read.payload_bytes = static_cast<uint32_t>(segment.size()) - 20;
  } else {
    EXPECT_EQ(read.protocol, 17U);
    EXPECT_EQ(word_at(segment, 4), segment.size());
    EXPECT_NE(word_at(segment, 6), 0U);
    read.payload_bytes = static_cast<uint32_t>(segment.size()) - 8;
  }
  return read;
}

}  // namespace tributary::testing
