// SPDX-License-Identifier: Apache-2.0
/// @file
/// The leaf loops over a payload: gradients as int32 lanes, on the wire as big-endian words.
///
/// Model:   What the RMW engines do to an aggregation buffer, one packet's payload at a time.
///          Sums wrap modulo 2^32, as in the hardware (Trio paper §6.3).
/// Shapes:  `to` and `lanes` are [lane_count] of int32 in host order; `be` is [lane_count * 4]
/// bytes
///          of any alignment. `to` and the source must not overlap. lane_count 0 does nothing.
/// Threads: The kernels have no state. The variant is chosen by the first call, from whichever
///          thread makes it, static initialisation included.
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
using AddLanesFn = void (*)(int32_t* to, const int32_t* from, uint32_t lane_count);

/// One variant of all four kernels.
struct LaneKernels {
  const char* isa;  ///< "avx512bw", "avx2" or "scalar".
  SwapLanesFn store_be32;
  SwapLanesFn add_be32;
  InPlaceLanesFn to_be32_in_place;
  AddLanesFn add_lanes;
};

/// The variants that this processor can run, best first; the last is always "scalar".
/// For tests and benchmarks: everything else calls the functions below.
[[nodiscard]] std::span<const LaneKernels> lane_kernels_available();

/// The name of the variant that the functions below use.
[[nodiscard]] const char* lanes_isa();

namespace detail {
// Each pointer starts at a function that chooses the variant and then stores it here, so there is
// no moment at which a call finds nothing. Relaxed is enough everywhere: every value that can be
// read is a valid function, and all lead to the same result.
extern std::atomic<SwapLanesFn> store_be32_chosen;
extern std::atomic<SwapLanesFn> add_be32_chosen;
extern std::atomic<InPlaceLanesFn> to_be32_in_place_chosen;
extern std::atomic<AddLanesFn> add_lanes_chosen;
}  // namespace detail

/// to[i] = the i-th big-endian word. A block's first contribution.
inline void store_be32(int32_t* to, const std::byte* be, uint32_t lane_count) {
  detail::store_be32_chosen.load(std::memory_order_relaxed)(to, be, lane_count);
}

/// to[i] += the i-th big-endian word, wrapping. Every further contribution.
inline void add_be32(int32_t* to, const std::byte* be, uint32_t lane_count) {
  detail::add_be32_chosen.load(std::memory_order_relaxed)(to, be, lane_count);
}

/// Turns host-order sums into the bytes of a result, where they lie.
inline void to_be32_in_place(int32_t* lanes, uint32_t lane_count) {
  detail::to_be32_in_place_chosen.load(std::memory_order_relaxed)(lanes, lane_count);
}

/// to[i] += from[i], wrapping.
inline void add_lanes(int32_t* to, const int32_t* from, uint32_t lane_count) {
  detail::add_lanes_chosen.load(std::memory_order_relaxed)(to, from, lane_count);
}

}  // namespace tributary::memory
