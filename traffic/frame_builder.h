// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds Ethernet frames with an IPv4 or IPv6 header and a TCP or UDP header. Payloads are zero.
///
/// Shapes:  Ethernet II 14 bytes, IPv4 20 or IPv6 40, TCP 20 (no options) or UDP 8, payload, and
///          zeros up to Ethernet's shortest frame. No frame check sequence.
/// Units:   Bytes, network order.
/// Threads: Pure functions.
/// Errors:  A size that does not fit is a bug (TRIB_ASSERT); settings are checked before.
/// Source:  IEEE 802.3, RFC 791, RFC 8200, RFC 9293, RFC 768.
/// Tests:   tests/traffic/frame_builder_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endpoint.h"

namespace tributary::traffic {

/// The shortest and the longest frame, without the frame check sequence of 4 bytes.
inline constexpr uint32_t kFrameBytesMin = 60;
inline constexpr uint32_t kFrameBytesMax = 1514;

enum class Transport : uint8_t { kTcp, kUdp };

/// The contents of a frame. Both endpoints are of one address family.
struct FrameContents {
  Endpoint source;
  Endpoint destination;
  Transport transport = Transport::kTcp;
  uint32_t tcp_flags = 0;        ///< wire::kTcpSyn and its neighbours.
  uint32_t sequence_number = 0;  ///< TCP only.
  uint32_t acknowledgment_number = 0;
  uint32_t ip_bytes = 0;  ///< Size of the IP packet; raised to the size of its headers.
};

/// Returns the size of the headers from IP up.
[[nodiscard]] uint32_t ip_header_bytes(const FrameContents& contents);

/// Writes the frame to the beginning of `frame`, with all lengths and checksums.
/// @param frame At least kFrameBytesMax bytes.
/// @return bytes of the frame.
uint32_t build_frame(const FrameContents& contents, std::span<std::byte> frame);

}  // namespace tributary::traffic
