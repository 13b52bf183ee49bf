// SPDX-License-Identifier: Apache-2.0
// The portable variant. It defines the result that the other variants must compute.
#include <algorithm>

#include "base/byte_order.h"
#include "memory/lanes_variants.h"

namespace tributary::memory::detail {
namespace {

int32_t wrapping_sum(int32_t a, uint32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + b);  // Unsigned, so it may wrap.
}

/// Returns the i-th half word with its sign.
int32_t half_word(const std::byte* be, size_t i) {
  return static_cast<int16_t>(load_be<uint16_t>(be + i * sizeof(int16_t)));
}

/// Returns sum / 2^shift, ties to even.
int32_t shifted(int32_t sum, uint32_t shift) {
  if (shift == 0) return sum;
  // Just below one half; the last bit of the quotient makes it one half if that bit is odd.
  const auto below_half = (uint32_t{1} << (shift - 1)) - 1;
  return wrapping_sum(sum, below_half + (static_cast<uint32_t>(sum >> shift) & 1)) >> shift;
}

}  // namespace

void store_be32_scalar(int32_t* __restrict to, const std::byte* __restrict be,
                       uint32_t lane_count) {
  for (size_t i = 0; i < lane_count; i++) {
    to[i] = static_cast<int32_t>(load_be<uint32_t>(be + i * sizeof(int32_t)));
  }
}

void add_be32_scalar(int32_t* __restrict to, const std::byte* __restrict be, uint32_t lane_count) {
  for (size_t i = 0; i < lane_count; i++) {
    to[i] = wrapping_sum(to[i], load_be<uint32_t>(be + i * sizeof(int32_t)));
  }
}

void to_be32_in_place_scalar(int32_t* lanes, uint32_t lane_count) {
  for (size_t i = 0; i < lane_count; i++) {
    lanes[i] = static_cast<int32_t>(byte_swapped(static_cast<uint32_t>(lanes[i])));
  }
}

void add_lanes_scalar(int32_t* __restrict to, const int32_t* __restrict from, uint32_t lane_count) {
  for (size_t i = 0; i < lane_count; i++) {
    to[i] = wrapping_sum(to[i], static_cast<uint32_t>(from[i]));
  }
}

void store_be16_scalar(int32_t* to, const std::byte* be, uint32_t lane_count) {
  for (size_t i = 0; i < lane_count; i++) to[i] = half_word(be, i);
}

void add_be16_scalar(int32_t* to, const std::byte* be, uint32_t lane_count) {
  for (size_t i = 0; i < lane_count; i++) {
    to[i] = wrapping_sum(to[i], static_cast<uint32_t>(half_word(be, i)));
  }
}

void to_be16_scalar(std::byte* be, const int32_t* lanes, uint32_t lane_count, uint32_t shift) {
  for (size_t i = 0; i < lane_count; i++) {
    const int32_t lane = std::clamp(shifted(lanes[i], shift), -INT16_MAX, +INT16_MAX);
    store_be(be + i * sizeof(int16_t), static_cast<uint16_t>(lane));
  }
}

}  // namespace tributary::memory::detail
