// SPDX-License-Identifier: Apache-2.0
#include "net/digest.h"

#include <array>
#include <cstring>

#include "base/byte_order.h"  // Asserts a little-endian host; hash_bytes() relies on it.

namespace tributary::net {
namespace {

constexpr size_t kWordBytes = 8;
constexpr size_t kChains = 4;

uint64_t load_word(const std::byte* from, size_t size) {
  uint64_t word = 0;
  std::memcpy(&word, from, size);
  return word;
}

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes) {
  std::array<uint64_t, kChains> chains{1, 2, 3, 4};
  size_t at = 0;
  for (; at + kChains * kWordBytes <= bytes.size(); at += kChains * kWordBytes) {
    for (size_t i = 0; i < kChains; i++) {
      chains[i] = hash_chain(chains[i], load_word(bytes.data() + at + i * kWordBytes, kWordBytes));
    }
  }
  uint64_t hash = bytes.size();
  for (const uint64_t chain : chains) hash = hash_chain(hash, chain);
  for (; at < bytes.size(); at += kWordBytes) {
    const size_t size = bytes.size() - at < kWordBytes ? bytes.size() - at : kWordBytes;
    hash = hash_chain(hash, load_word(bytes.data() + at, size));
  }
  return hash_mix(hash);
}

}  // namespace tributary::net
