// SPDX-License-Identifier: Apache-2.0
/// @file
/// The FNV-1a digest of 64 bits, for comparisons between processes. It is no protection against
/// forgery.
///
/// Threads: Pure functions.
/// Source:  IETF draft-eastlake-fnv, 64-bit FNV-1a.
/// Tests:   tests/base/fnv_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary {

inline constexpr uint64_t kFnvStart = 0xcbf29ce484222325ULL;
inline constexpr uint64_t kFnvFactor = 0x100000001b3ULL;

/// Adds one byte to a running digest.
[[nodiscard]] constexpr uint64_t fnv_byte(uint64_t digest, uint8_t byte) {
  return (digest ^ byte) * kFnvFactor;
}

/// Adds bytes to a running digest.
[[nodiscard]] constexpr uint64_t fnv_bytes(uint64_t digest, std::span<const std::byte> bytes) {
  for (const std::byte each : bytes) digest = fnv_byte(digest, static_cast<uint8_t>(each));
  return digest;
}

}  // namespace tributary
