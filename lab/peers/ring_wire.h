// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets of the ring all-reduce. They exist only here, to be compared with others: they are no
/// product's format.
///
/// Shapes:  Most significant byte first.
///            data    kind 1, rank, lanes (16 bit), position (64 bit), then int32 lanes
///            ack     kind 2, rank, words (16 bit), below (64), limit (64), then words of 64 bits
///            probe   kind 3, rank, 0 (16 bit), 0 (64): "say again what you said last"
/// Errors:  decode() returns nothing for what is none of these or has another length.
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
/// What the 16 bits of a packet's count can say.
inline constexpr uint32_t kRingLanesMax = UINT16_MAX;

enum class RingKind : uint8_t { kData = 1, kAck = 2, kProbe = 3 };

struct RingPacket {
  RingKind kind = RingKind::kData;
  uint8_t rank = 0;  ///< Of the sender.
  uint16_t lanes = 0;
  uint64_t position = 0;
  Ack ack{};  ///< kAck only.
};

/// Writes the head of data, or all of an ack or a probe. @param out At least kRingAckBytesMax.
/// @return bytes written.
uint32_t encode(const RingPacket& packet, std::span<std::byte> out);

/// @param stored     The packet's bytes; of data the head is enough.
/// @param size_bytes As on the wire.
[[nodiscard]] std::optional<RingPacket> decode_ring(std::span<const std::byte> stored,
                                                    uint32_t size_bytes);

}  // namespace tributary::lab
