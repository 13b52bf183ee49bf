// SPDX-License-Identifier: Apache-2.0
/// @file
/// Cuts tensors for the race's plain parameter server. Chunk c belongs to server c modulo the
/// number of servers. Chunks travel in order on each connection, without headers; the greeting
/// states the sizes from which their ends follow.
///
/// Units:   Bytes.
/// Tests:   tests/bench/race/client/ps_test.cc
#pragma once

#include <cstdint>

namespace tributary::race {

/// Bytes of a chunk, except a tensor's last. Large enough to make system calls negligible, small
/// enough for the second-level cache.
inline constexpr uint32_t kPsChunkBytes = 256 * 1024;
/// Most chunks that a worker may send ahead of its received sums, on each connection.
inline constexpr uint32_t kPsChunksAhead = 16;

/// A worker's first message on each connection, in host byte order (one machine).
struct PsGreeting {
  uint32_t magic = 0x54505331;  ///< "TPS1"
  uint32_t server_index = 0;
  uint32_t servers = 1;
  uint32_t reserved = 0;
  uint64_t tensor_bytes = 0;  ///< Not 0; a multiple of 4.

  friend bool operator==(const PsGreeting&, const PsGreeting&) = default;
};

/// One server's share of each tensor.
struct PsShare {
  uint64_t tensor_bytes;
  uint32_t server_index;
  uint32_t servers;

  /// Returns the number of this server's chunks in a tensor; may be 0.
  [[nodiscard]] constexpr uint64_t chunks() const {
    const uint64_t all = (tensor_bytes + kPsChunkBytes - 1) / kPsChunkBytes;
    return all > server_index ? (all - server_index - 1) / servers + 1 : 0;
  }
  /// Returns the offset in the tensor of the share's chunk `index`.
  [[nodiscard]] constexpr uint64_t offset(uint64_t index) const {
    return (index * servers + server_index) * kPsChunkBytes;
  }
  [[nodiscard]] constexpr uint32_t size(uint64_t index) const {
    const uint64_t left = tensor_bytes - offset(index);
    return static_cast<uint32_t>(left < kPsChunkBytes ? left : kPsChunkBytes);
  }
};
static_assert(PsShare{kPsChunkBytes + 4, 1, 2}.chunks() == 1);
static_assert(PsShare{kPsChunkBytes + 4, 1, 2}.size(0) == 4);
static_assert(PsShare{kPsChunkBytes, 1, 2}.chunks() == 0);

}  // namespace tributary::race
