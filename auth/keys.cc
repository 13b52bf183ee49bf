// SPDX-License-Identifier: Apache-2.0
#include "auth/keys.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/prng.h"

namespace tributary::auth {
namespace {

static_assert(sizeof(Key128) == crypto_shorthash_KEYBYTES);
static_assert(sizeof(Key256) <= crypto_generichash_KEYBYTES_MAX);

constexpr size_t kContextMax = 64;
constexpr size_t kLabelBytesMax = 32;

/// Chooses the library's fastest code and opens the entropy source, once.
void prepare_library() {
  static const bool ready = sodium_init() >= 0;
  TRIB_ASSERT(ready);
}

const unsigned char* bytes_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* octets(Key256& key) { return reinterpret_cast<unsigned char*>(key.data()); }

}  // namespace

uint64_t random_u64() {
  prepare_library();
  uint64_t value = 0;
  while (value == 0) randombytes_buf(&value, sizeof value);
  return value;
}

Key256 random_key() {
  prepare_library();
  Key256 key;
  randombytes_buf(key.data(), key.size());
  return key;
}

Key256 key_of_seed(uint64_t seed) {
  Prng draws(seed);
  Key256 key;
  for (size_t at = 0; at < key.size(); at += sizeof(uint64_t)) {
    store_be<uint64_t>(key.data() + at, draws.any_u64());
  }
  return key;
}

Key256 hash(std::span<const std::byte> bytes) {
  prepare_library();
  Key256 key;
  const int failed =
      crypto_generichash(octets(key), key.size(), bytes_of(bytes), bytes.size(), nullptr, 0);
  TRIB_ASSERT(failed == 0);
  return key;
}

bool is_same_key(const Key256& a, const Key256& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Key256 derive(const Key256& parent, std::string_view label, std::span<const uint64_t> context) {
  prepare_library();
  TRIB_ASSERT(label.size() <= kLabelBytesMax && context.size() <= kContextMax);
  // The label has a fixed width, so no label and context can look like another pair.
  std::array<std::byte, kLabelBytesMax + kContextMax * sizeof(uint64_t)> input{};
  std::memcpy(input.data(), label.data(), label.size());
  std::byte* at = input.data() + kLabelBytesMax;
  for (const uint64_t value : context) {
    store_be<uint64_t>(at, value);
    at += sizeof(uint64_t);
  }
  Key256 key;
  const int failed = crypto_generichash(octets(key), key.size(), bytes_of(input),
                                        static_cast<unsigned long long>(at - input.data()),
                                        bytes_of(parent), parent.size());
  TRIB_ASSERT(failed == 0);
  return key;
}

uint64_t derive_u64(const Key256& parent, std::string_view label,
                    std::span<const uint64_t> context) {
  const Key256 key = derive(parent, label, context);
  return std::max<uint64_t>(load_be<uint64_t>(key.data()), 1);
}

Key128 first_half(const Key256& key) {
  Key128 half;
  std::copy_n(key.begin(), half.size(), half.begin());
  return half;
}

Key128 second_half(const Key256& key) {
  Key128 half;
  std::copy_n(key.begin() + half.size(), half.size(), half.begin());
  return half;
}

uint64_t siphash(const Key128& key, std::span<const std::byte> bytes) {
  uint64_t hash;
  crypto_shorthash(reinterpret_cast<unsigned char*>(&hash), bytes_of(bytes), bytes.size(),
                   bytes_of(key));
  return hash;
}

}  // namespace tributary::auth
