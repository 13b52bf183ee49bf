// SPDX-License-Identifier: Apache-2.0
/// @file
/// Hashes for the digest of a run: the same on every compiler and machine, fast, not for secrets.
///
/// Source: the mixing step of SplitMix64 (base/prng.h) and a multiply-rotate chain. Long bytes use
///         four chains side by side, because each multiplication waits for the previous one.
/// Tests:  tests/net/digest_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/endpoint.h"

namespace tributary::net {

/// An odd number whose bits look random: 2^64 / golden ratio.
inline constexpr uint64_t kHashFactor = 0x9e3779b97f4a7c15ULL;
/// A value that no input is likely to have, so that zeros do not stay zeros: digits of pi.
inline constexpr uint64_t kHashSecret = 0x243f6a8885a308d3ULL;

/// Adds `value` to the running hash `digest`. The order of additions matters. It folds both halves
/// of the wide product: in the lower half alone, a value's highest bits reach only a few bits.
[[nodiscard]] constexpr uint64_t hash_chain(uint64_t digest, uint64_t value) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{digest ^ value ^ kHashSecret} * kHashFactor;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// Spreads every bit of `value` over all 64.
[[nodiscard]] constexpr uint64_t hash_mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// The 16 bytes of an IP address as two words, in this machine's byte order.
struct AddressWords {
  explicit AddressWords(const Endpoint& endpoint) {
    std::memcpy(&high, endpoint.address.data(), sizeof high);
    std::memcpy(&low, endpoint.address.data() + sizeof high, sizeof low);
  }
  uint64_t high;
  uint64_t low;
};

/// Returns the hash of `bytes` and their number.
[[nodiscard]] uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace tributary::net
