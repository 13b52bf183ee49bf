// SPDX-License-Identifier: Apache-2.0
/// @file
/// Keys: drawn from the kernel's entropy, or derived from another key.
///
/// Model:   derive() is keyed BLAKE2b. A derived key tells nothing about its parent or its
///          siblings, so a party that keeps one parent key needs no table of derived ones.
/// Threads: Any.
/// Errors:  The process ends if the kernel has no entropy source.
/// Source:  libsodium (randombytes, crypto_generichash, crypto_shorthash).
/// Tests:   tests/auth/keys_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tributary::auth {

using Key128 = std::array<std::byte, 16>;
using Key256 = std::array<std::byte, 32>;

/// Returns 64 bits of the kernel's entropy; never 0.
[[nodiscard]] uint64_t random_u64();
/// Returns a key of the kernel's entropy.
[[nodiscard]] Key256 random_key();
/// Returns a key that the seed determines, for runs in virtual time. Anybody can compute it.
[[nodiscard]] Key256 key_of_seed(uint64_t seed);

/// Returns a key computed from any number of bytes.
[[nodiscard]] Key256 hash(std::span<const std::byte> bytes);

/// Compares two keys in a time that does not depend on their bytes.
[[nodiscard]] bool is_same_key(const Key256& a, const Key256& b);

/// Derives a key.
/// @param label    The use of the key; different uses have different labels.
/// @param context  The party or session that the key is for; at most 64 values.
[[nodiscard]] Key256 derive(const Key256& parent, std::string_view label,
                            std::span<const uint64_t> context);
/// Derives 64 bits; never 0.
[[nodiscard]] uint64_t derive_u64(const Key256& parent, std::string_view label,
                                  std::span<const uint64_t> context);
/// Returns the first half of a key.
[[nodiscard]] Key128 first_half(const Key256& key);
/// Returns the second half of a key.
[[nodiscard]] Key128 second_half(const Key256& key);

/// Returns SipHash-2-4 of the bytes.
[[nodiscard]] uint64_t siphash(const Key128& key, std::span<const std::byte> bytes);

}  // namespace tributary::auth
