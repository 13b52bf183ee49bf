// SPDX-License-Identifier: Apache-2.0
#include "base/internet_checksum.h"

#include <cstring>

#include "base/byte_order.h"

namespace tributary {
namespace {

/// Returns the sum of the little-endian 32-bit halves of `count` 8-byte words. It has no branch but
/// the loop, so it vectorises. 64 bits hold the sum of 2^32 such halves.
uint64_t sum_halves(const std::byte* bytes, size_t count) {
  uint64_t low = 0;
  uint64_t high = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    low += word & 0xffff'ffff;
    high += word >> 32;
  }
  return low + high;
}

}  // namespace

uint16_t word_sum(std::span<const std::byte> bytes) {
  // The sum of swapped words is the swapped sum (RFC 1071 §2(B)), so add in host order and swap
  // once. 2^16 counts as 1, so wider words can be added and folded at the end.
  const size_t words = bytes.size() / sizeof(uint64_t);
  uint64_t sum = sum_halves(bytes.data(), words);
  const size_t rest = bytes.size() - words * sizeof(uint64_t);
  if (rest > 0) {
    uint64_t last = 0;
    std::memcpy(&last, bytes.data() + words * sizeof last, rest);
    sum += (last & 0xffff'ffff) + (last >> 32);
  }
  return byte_swapped(fold_sum(sum));
}

uint16_t internet_checksum(std::span<const std::byte> bytes, uint64_t initial) {
  return static_cast<uint16_t>(~fold_sum(initial + word_sum(bytes)));
}

}  // namespace tributary
