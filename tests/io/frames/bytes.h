// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packet bytes for the tests of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "engine/packet.h"
#include "tests/support/hex.h"

namespace tributary::io {

/// Offset of the number in numbered(). It is behind the bytes that UdpPort steers by, which stay 0,
/// so that packets with different numbers may share a train.
inline constexpr uint32_t kNumberAt = 8;

/// Returns `size` bytes (at least 12): the big-endian `number` at kNumberAt, then a pattern of it.
inline Bytes numbered(uint32_t number, uint32_t size) {
  Bytes bytes(size);
  store_be<uint32_t>(bytes.data() + kNumberAt, number);
  for (uint32_t i = kNumberAt + 4; i < size; i++) {
    bytes[i] = static_cast<std::byte>(number * 7 + i);
  }
  return bytes;
}

inline uint32_t number_of(std::span<const std::byte> bytes) {
  return load_be<uint32_t>(bytes.data() + kNumberAt);
}

inline Bytes copy_of(const engine::Packet& packet) {
  return {packet.bytes().begin(), packet.bytes().end()};
}

inline engine::TxPacket to(const Bytes& bytes, const Endpoint& destination) {
  return {.data = bytes.data(),
          .size = static_cast<uint32_t>(bytes.size()),
          .destination = destination};
}

}  // namespace tributary::io
