// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets of the ring all-reduce. Only experiments use this format.
///
/// Shapes:  Most significant byte first.
///            data    kind 1, rank modulo 256, lanes (16 bit), position (64 bit), then int32 lanes
///            ack     kind 2, rank, words (16 bit), below (64), limit (64), then words of 64 bits
///            probe   kind 3, rank, 0 (16 bit), 0 (64): asks the neighbour to repeat its last ack
/// Errors:  decode() returns nothing for any other kind or length.
/// Threads: Pure functions.
/// Tests:   tests/lab/peers/ring_protocol_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lab/peers/stream.h"

namespace tributary::lab {

inline constexpr uint32_t kRingHeadBytes = 12;
inline constexpr uint32_t kRingAckBytesMax = kRingHeadBytes + 8 + kAckWords * 8;
/// Maximum lanes of a packet: the largest value of its 16-bit count.
inline constexpr uint32_t kRingLanesMax = UINT16_MAX;

enum class RingKind : uint8_t { kData = 1, kAck = 2, kProbe = 3 };

struct RingPacket {
  RingKind kind = RingKind::kData;
  uint8_t rank = 0;  ///< Sender's rank modulo 256.
  uint16_t lanes = 0;
  uint64_t position = 0;
  Ack ack{};  ///< Valid for kAck only.
};

/// Writes the head of a data packet, or a whole ack or probe.
/// @param out At least kRingAckBytesMax.
/// @return Bytes written.
uint32_t encode(const RingPacket& packet, std::span<std::byte> out);

/// Decodes a packet; returns nothing for an invalid kind or length.
/// @param stored     The packet's bytes; for data, the head suffices.
/// @param size_bytes Size on the wire.
[[nodiscard]] std::optional<RingPacket> decode_ring(std::span<const std::byte> stored,
                                                    uint32_t size_bytes);

}  // namespace tributary::lab
