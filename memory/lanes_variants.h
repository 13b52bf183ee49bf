// SPDX-License-Identifier: Apache-2.0
/// @file
/// The variants behind memory/lanes.h, included by its .cc files only. Call a variant only if
/// lane_kernels_available() lists it: the processor must have its instructions.
#pragma once

#include "memory/lanes.h"

namespace tributary::memory::detail {

void store_be32_scalar(int32_t* to, const std::byte* be, uint32_t lane_count);
void add_be32_scalar(int32_t* to, const std::byte* be, uint32_t lane_count);
void to_be32_in_place_scalar(int32_t* lanes, uint32_t lane_count);
void add_lanes_scalar(int32_t* to, const int32_t* from, uint32_t lane_count);
void store_be16_scalar(int32_t* to, const std::byte* be, uint32_t lane_count);
void add_be16_scalar(int32_t* to, const std::byte* be, uint32_t lane_count);
void to_be16_scalar(std::byte* be, const int32_t* lanes, uint32_t lane_count, uint32_t shift);

inline constexpr LaneKernels kScalarKernels{
    "scalar",         store_be32_scalar, add_be32_scalar, to_be32_in_place_scalar,
    add_lanes_scalar, store_be16_scalar, add_be16_scalar, to_be16_scalar};

#if defined(__x86_64__)
void store_be32_avx2(int32_t* to, const std::byte* be, uint32_t lane_count);
void add_be32_avx2(int32_t* to, const std::byte* be, uint32_t lane_count);
void to_be32_in_place_avx2(int32_t* lanes, uint32_t lane_count);
void add_lanes_avx2(int32_t* to, const int32_t* from, uint32_t lane_count);
void store_be16_avx2(int32_t* to, const std::byte* be, uint32_t lane_count);
void add_be16_avx2(int32_t* to, const std::byte* be, uint32_t lane_count);
void to_be16_avx2(std::byte* be, const int32_t* lanes, uint32_t lane_count, uint32_t shift);

inline constexpr LaneKernels kAvx2Kernels{
    "avx2",         store_be32_avx2, add_be32_avx2, to_be32_in_place_avx2,
    add_lanes_avx2, store_be16_avx2, add_be16_avx2, to_be16_avx2};

void store_be32_avx512(int32_t* to, const std::byte* be, uint32_t lane_count);
void add_be32_avx512(int32_t* to, const std::byte* be, uint32_t lane_count);
void to_be32_in_place_avx512(int32_t* lanes, uint32_t lane_count);
void add_lanes_avx512(int32_t* to, const int32_t* from, uint32_t lane_count);

// 16-bit lanes use the kernels of AVX2: they have half the bytes for the same sums.
inline constexpr LaneKernels kAvx512Kernels{
    "avx512bw",       store_be32_avx512, add_be32_avx512, to_be32_in_place_avx512,
    add_lanes_avx512, store_be16_avx2,   add_be16_avx2,   to_be16_avx2};
#endif

}  // namespace tributary::memory::detail
