// SPDX-License-Identifier: Apache-2.0
/// @file
/// The key of a card's Toeplitz hash (receive-side scaling, RSS) for an end of a wire.
///
/// Model:   A key that repeats after 16 bits gives both directions of a flow the same hash, because
///          addresses and ports change places by multiples of 16 bits. Source: Woo and Park,
///          "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", KAIST, 2012.
/// Units:   Bytes.
/// Threads: Pure.
/// Tests:   tests/io/dpdk/rss_key_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tributary::io {

/// Bytes of a key for two IPv6 addresses and two ports: 36 bytes, and a hash of 32 bits.
inline constexpr size_t kRssKeyBytes = 40;

/// @param key_bytes The size that the card requires; 0 if it states none.
[[nodiscard]] inline std::vector<uint8_t> symmetric_rss_key(size_t key_bytes) {
  std::vector<uint8_t> key(key_bytes == 0 ? kRssKeyBytes : key_bytes);
  for (size_t i = 0; i < key.size(); i++) key[i] = i % 2 == 0 ? 0x6d : 0x5a;
  return key;
}

}  // namespace tributary::io
