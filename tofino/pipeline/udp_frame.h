// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whole frames as the modelled switch sees them: Ethernet, IPv4 without options and UDP around a
/// payload.
///
/// Source:  IEEE 802.3, RFC 791, RFC 768. Time to live and the absent UDP checksum are those of
///          SwitchML's published code (wire/switchml.h).
/// Errors:  Parsing returns none for any other frame.
/// Threads: None; pure functions.
/// Tests:   tests/tofino/pipeline/udp_frame_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tributary::tofino {

/// One end of a frame.
struct FrameAddress {
  uint64_t mac = 0;  ///< Low 48 bits.
  uint32_t ip = 0;   ///< IPv4, host order.
  uint16_t port = 0;

  friend bool operator==(const FrameAddress&, const FrameAddress&) = default;
};

/// Returns a frame with Ethernet, IPv4 and UDP headers around a payload; the UDP checksum is 0.
[[nodiscard]] std::vector<std::byte> udp_frame(const FrameAddress& from, const FrameAddress& to,
                                               std::span<const std::byte> payload);

/// Bytes of such a frame before its UDP payload.
inline constexpr uint32_t kUdpFrameHeaderBytes = 14 + 20 + 8;
/// Returns only these header bytes. @param payload_bytes Size of the payload, which may be elided.
[[nodiscard]] std::array<std::byte, kUdpFrameHeaderBytes> udp_frame_header(const FrameAddress& from,
                                                                           const FrameAddress& to,
                                                                           uint32_t payload_bytes);

struct UdpFrame {
  FrameAddress from;
  FrameAddress to;
  uint8_t time_to_live = 0;
  uint16_t udp_checksum = 0;
  bool ip_checksum_right = false;
  std::span<const std::byte> payload;  ///< Points into the frame.
  uint32_t payload_bytes = 0;
};
/// Parses a frame.
/// @param size_bytes Size of the whole frame. `frame` may be only its beginning; then `payload`
///                   spans the bytes that exist, and payload_bytes is the full size.
/// @return none if it is not such a frame, or if the lengths do not fit.
[[nodiscard]] std::optional<UdpFrame> parse_udp_frame(std::span<const std::byte> frame,
                                                      uint32_t size_bytes);
[[nodiscard]] inline std::optional<UdpFrame> parse_udp_frame(std::span<const std::byte> frame) {
  return parse_udp_frame(frame, static_cast<uint32_t>(frame.size()));
}

}  // namespace tributary::tofino
