// SPDX-License-Identifier: Apache-2.0
/// @file
/// The leaf loops over a payload: gradients as int32 lanes, on the wire as big-endian words.
///
/// Model:   The work of the RMW engines on an aggregation buffer, one packet's payload at a time.
///          Sums wrap modulo 2^32, as in the hardware (Trio paper §6.3).
/// Shapes:  `to` and `lanes` are [lane_count] of int32, host order; `be` is [lane_count * 4] bytes,
///          or [lane_count * 2] for 16-bit words, of any alignment. `to` and the source must not
///          overlap. lane_count 0 does nothing.
/// Threads: The kernels have no state. The first call chooses the variant. Any thread may make it,
///          even during static initialisation.
/// Memory:  No allocation.
/// Tests:   tests/memory/lanes_test.cc, tests/memory/lanes_bench.cc
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary::memory {

using SwapLanesFn = void (*)(int32_t* to, const std::byte* be, uint32_t lane_count);
using InPlaceLanesFn = void (*)(int32_t* lanes, uint32_t lane_count);
using NarrowLanesFn = void (*)(std::byte* be, const int32_t* lanes, uint32_t lane_count,
                               uint32_t shift);
using AddLanesFn = void (*)(int32_t* to, const int32_t* from, uint32_t lane_count);

/// One variant of all kernels, compiled for one instruction set.
struct LaneKernels {
  const char* isa;  ///< "avx512bw", "avx2" or "scalar".
  SwapLanesFn store_be32;
  SwapLanesFn add_be32;
  InPlaceLanesFn to_be32_in_place;
  AddLanesFn add_lanes;
  SwapLanesFn store_be16;
  SwapLanesFn add_be16;
  NarrowLanesFn to_be16;
};

/// Returns the variants that this processor can run, best first; the last is always "scalar".
/// For tests and benchmarks: all other code calls the functions below.
[[nodiscard]] std::span<const LaneKernels> lane_kernels_available();

/// Returns the name of the variant that the functions below use.
[[nodiscard]] const char* lanes_isa();

namespace detail {
// Each pointer starts at a function that chooses the variant and stores it here, so every call
// finds a valid function. Relaxed is enough everywhere: every value that a thread can read is a
// valid function, and all of them compute the same result.
extern std::atomic<SwapLanesFn> store_be32_chosen;
extern std::atomic<SwapLanesFn> add_be32_chosen;
extern std::atomic<InPlaceLanesFn> to_be32_in_place_chosen;
extern std::atomic<AddLanesFn> add_lanes_chosen;
extern std::atomic<SwapLanesFn> store_be16_chosen;
extern std::atomic<SwapLanesFn> add_be16_chosen;
extern std::atomic<NarrowLanesFn> to_be16_chosen;
}  // namespace detail

/// to[i] = the i-th big-endian word. For a block's first contribution.
inline void store_be32(int32_t* to, const std::byte* be, uint32_t lane_count) {
  detail::store_be32_chosen.load(std::memory_order_relaxed)(to, be, lane_count);
}

/// to[i] += the i-th big-endian word, wrapping. For every further contribution.
inline void add_be32(int32_t* to, const std::byte* be, uint32_t lane_count) {
  detail::add_be32_chosen.load(std::memory_order_relaxed)(to, be, lane_count);
}

/// Converts host-order sums in place to the bytes of a result.
inline void to_be32_in_place(int32_t* lanes, uint32_t lane_count) {
  detail::to_be32_in_place_chosen.load(std::memory_order_relaxed)(lanes, lane_count);
}

/// to[i] += from[i], wrapping.
inline void add_lanes(int32_t* to, const int32_t* from, uint32_t lane_count) {
  detail::add_lanes_chosen.load(std::memory_order_relaxed)(to, from, lane_count);
}

/// to[i] = the i-th big-endian half word, with its sign.
inline void store_be16(int32_t* to, const std::byte* be, uint32_t lane_count) {
  detail::store_be16_chosen.load(std::memory_order_relaxed)(to, be, lane_count);
}

/// to[i] += the i-th big-endian half word, wrapping at 32 bits.
inline void add_be16(int32_t* to, const std::byte* be, uint32_t lane_count) {
  detail::add_be16_chosen.load(std::memory_order_relaxed)(to, be, lane_count);
}

/// Writes lanes[i] / 2^shift as half words: rounded to nearest, ties to even, and then limited to
/// +-32767. `be` may be the first byte of `lanes` or lie before it. @param shift  0 … 30.
inline void to_be16(std::byte* be, const int32_t* lanes, uint32_t lane_count, uint32_t shift) {
  detail::to_be16_chosen.load(std::memory_order_relaxed)(be, lanes, lane_count, shift);
}

}  // namespace tributary::memory
