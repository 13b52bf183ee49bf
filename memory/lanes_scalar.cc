// SPDX-License-Identifier: Apache-2.0
// The portable variant. It defines the result that the other variants must compute.
#include "base/byte_order.h"
#include "memory/lanes_variants.h"

namespace tributary::memory::detail {
namespace {

int32_t wrapping_sum(int32_t a, uint32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + b);  // Unsigned, so it may wrap.
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

}  // namespace tributary::memory::detail
