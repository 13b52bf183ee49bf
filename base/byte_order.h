// SPDX-License-Identifier: Apache-2.0
/// @file
/// Integers in network byte order (most significant byte first), read from and written to bytes
/// of any alignment. Each function is a single load or store with a byte swap.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace tributary {

static_assert(std::endian::native == std::endian::little, "kernels assume a little-endian host");

template <std::unsigned_integral T>
[[nodiscard]] constexpr T byte_swapped(T value) {
  if constexpr (sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}

/// Reads sizeof(T) bytes at `from`, most significant first.
template <std::unsigned_integral T>
[[nodiscard]] inline T load_be(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return byte_swapped(value);
}

/// Writes sizeof(T) bytes at `to`, most significant first.
template <std::unsigned_integral T>
inline void store_be(std::byte* to, T value) {
  value = byte_swapped(value);
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace tributary
