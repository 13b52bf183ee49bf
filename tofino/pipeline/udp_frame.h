// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whole frames as the modelled switch sees them: Ethernet, IPv4 without options and UDP around a
/// payload.
///
/// Source:  IEEE 802.3, RFC 791, RFC 768; time to live and the absent UDP checksum as SwitchML's
///          published code sends them (wire/switchml.h).
/// Errors:  What is not such a frame reads as none.
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

/// Ethernet, IPv4 and UDP around a payload; UDP checksum 0.
[[nodiscard]] std::vector<std::byte> udp_frame(const FrameAddress& from, const FrameAddress& to,
                                               std::span<const std::byte> payload);

/// Bytes of such a frame before its UDP payload.
inline constexpr uint32_t kUdpFrameHeaderBytes = 14 + 20 + 8;
/// Those bytes alone. @param payload_bytes Of the payload, whether it exists or not.
[[nodiscard]] std::array<std::byte, kUdpFrameHeaderBytes> udp_frame_header(const FrameAddress& from,
                                                                           const FrameAddress& to,
                                                                           uint32_t payload_bytes);

struct UdpFrame {
  FrameAddress from;
  FrameAddress to;
  uint8_t time_to_live = 0;
  uint16_t udp_checksum = 0;
  bool ip_checksum_right = false;
  std::span<const std::byte> payload;  ///< Into the frame.
  uint32_t payload_bytes = 0;
};
/// @param size_bytes Of the whole frame, of which `frame` may be the beginning: then the payload's
///                   span is what there is, and payload_bytes what there would be.
/// @return none if it is not one, or the lengths do not fit.
[[nodiscard]] std::optional<UdpFrame> parse_udp_frame(std::span<const std::byte> frame,
                                                      uint32_t size_bytes);
[[nodiscard]] inline std::optional<UdpFrame> parse_udp_frame(std::span<const std::byte> frame) {
  return parse_udp_frame(frame, static_cast<uint32_t>(frame.size()));
}

}  // namespace tributary::tofino
