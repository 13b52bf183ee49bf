// SPDX-License-Identifier: Apache-2.0
// AVX2 and AVX-512BW variants. They use intrinsics, not plain loops, so the code is the same at -O1
// and -O3 and in every compiler. Each function carries its target attribute, so the file needs no
// flags and no other function is compiled for instructions that the processor may lack.
#if defined(__x86_64__)

#include <immintrin.h>

#include "memory/lanes_variants.h"

#define TRIB_AVX2 __attribute__((target("avx2")))
#define TRIB_AVX512 __attribute__((target("avx512f,avx512bw")))

namespace tributary::memory::detail {
namespace {

constexpr size_t kAvx2Lanes = 32 / sizeof(int32_t);
constexpr size_t kAvx512Lanes = 64 / sizeof(int32_t);

/// Vectors per loop pass. Four hide the latency of load, shuffle, add and store. More would
/// lengthen the remainder loop, which small packets pay for.
constexpr size_t kUnroll = 4;

// ---- AVX2 ---------------------------------------------------------------------------------------

TRIB_AVX2 inline __m256i load256(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
TRIB_AVX2 inline void store256(void* to, __m256i value) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}
/// Reverses the bytes of each of the eight words.
TRIB_AVX2 inline __m256i swap256(__m256i words) {
  const __m256i order = _mm256_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3,  //
                                        12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  return _mm256_shuffle_epi8(words, order);
}

/// Returns eight half words, in network order, as lanes.
TRIB_AVX2 inline __m256i widened(const std::byte* be) {
  const __m128i order = _mm_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(be));
  return _mm256_cvtepi16_epi32(_mm_shuffle_epi8(words, order));
}
/// Returns lanes / 2^shift, ties to even. @param below_half  2^(shift - 1) - 1.
TRIB_AVX2 inline __m256i shifted(__m256i lanes, __m128i shift, __m256i below_half) {
  const __m256i odd = _mm256_and_si256(_mm256_sra_epi32(lanes, shift), _mm256_set1_epi32(1));
  return _mm256_sra_epi32(_mm256_add_epi32(lanes, _mm256_add_epi32(below_half, odd)), shift);
}

// ---- AVX-512BW ----------------------------------------------------------------------------------

TRIB_AVX512 inline __m512i swap512(__m512i words) {
  const __m512i order = _mm512_set_epi64(0x0c0d0e0f08090a0b, 0x0405060700010203, 0x0c0d0e0f08090a0b,
                                         0x0405060700010203, 0x0c0d0e0f08090a0b, 0x0405060700010203,
                                         0x0c0d0e0f08090a0b, 0x0405060700010203);
  return _mm512_shuffle_epi8(words, order);
}
/// Returns a mask of the first `lane_count` (below 16) lanes: the rest is neither read nor written.
TRIB_AVX512 inline __mmask16 first_lanes(size_t lane_count) {
  return static_cast<__mmask16>((1U << lane_count) - 1U);
}

}  // namespace

TRIB_AVX2 void store_be32_avx2(int32_t* to, const std::byte* be, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx2Lanes <= lane_count; i += kAvx2Lanes) {
    store256(to + i, swap256(load256(be + i * sizeof(int32_t))));
  }
  if (i == lane_count) return;
  store_be32_scalar(to + i, be + i * sizeof(int32_t), static_cast<uint32_t>(lane_count - i));
}

TRIB_AVX2 void add_be32_avx2(int32_t* to, const std::byte* be, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kUnroll * kAvx2Lanes <= lane_count; i += kUnroll * kAvx2Lanes) {
    __m256i sum[kUnroll];
    for (size_t k = 0; k < kUnroll; k++) {
      const size_t lane = i + k * kAvx2Lanes;
      sum[k] = _mm256_add_epi32(load256(to + lane), swap256(load256(be + lane * sizeof(int32_t))));
    }
    for (size_t k = 0; k < kUnroll; k++) store256(to + i + k * kAvx2Lanes, sum[k]);
  }
  for (; i + kAvx2Lanes <= lane_count; i += kAvx2Lanes) {
    const __m256i contribution = swap256(load256(be + i * sizeof(int32_t)));
    store256(to + i, _mm256_add_epi32(load256(to + i), contribution));
  }
  if (i == lane_count) return;
  add_be32_scalar(to + i, be + i * sizeof(int32_t), static_cast<uint32_t>(lane_count - i));
}

TRIB_AVX2 void to_be32_in_place_avx2(int32_t* lanes, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx2Lanes <= lane_count; i += kAvx2Lanes) {
    store256(lanes + i, swap256(load256(lanes + i)));
  }
  if (i == lane_count) return;
  to_be32_in_place_scalar(lanes + i, static_cast<uint32_t>(lane_count - i));
}

TRIB_AVX2 void add_lanes_avx2(int32_t* to, const int32_t* from, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx2Lanes <= lane_count; i += kAvx2Lanes) {
    store256(to + i, _mm256_add_epi32(load256(to + i), load256(from + i)));
  }
  if (i == lane_count) return;
  add_lanes_scalar(to + i, from + i, static_cast<uint32_t>(lane_count - i));
}

TRIB_AVX2 void store_be16_avx2(int32_t* to, const std::byte* be, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx2Lanes <= lane_count; i += kAvx2Lanes) {
    store256(to + i, widened(be + i * sizeof(int16_t)));
  }
  if (i == lane_count) return;
  store_be16_scalar(to + i, be + i * sizeof(int16_t), static_cast<uint32_t>(lane_count - i));
}

TRIB_AVX2 void add_be16_avx2(int32_t* to, const std::byte* be, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx2Lanes <= lane_count; i += kAvx2Lanes) {
    store256(to + i, _mm256_add_epi32(load256(to + i), widened(be + i * sizeof(int16_t))));
  }
  if (i == lane_count) return;
  add_be16_scalar(to + i, be + i * sizeof(int16_t), static_cast<uint32_t>(lane_count - i));
}

TRIB_AVX2 void to_be16_avx2(std::byte* be, const int32_t* lanes, uint32_t lane_count,
                            uint32_t shift) {
  const __m256i order = _mm256_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1,  //
                                        14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
  const __m256i least = _mm256_set1_epi16(-INT16_MAX);
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  const __m256i below_half =
      _mm256_set1_epi32(shift == 0 ? 0 : static_cast<int32_t>((1U << (shift - 1)) - 1));
  size_t i = 0;
  for (; i + 2 * kAvx2Lanes <= lane_count; i += 2 * kAvx2Lanes) {
    __m256i low = load256(lanes + i);
    __m256i high = load256(lanes + i + kAvx2Lanes);
    if (shift != 0) {
      low = shifted(low, count, below_half);
      high = shifted(high, count, below_half);
    }
    // The pack limits to int16, and interleaves the halves of its operands.
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    store256(be + i * sizeof(int16_t), _mm256_shuffle_epi8(_mm256_max_epi16(packed, least), order));
  }
  if (i == lane_count) return;
  to_be16_scalar(be + i * sizeof(int16_t), lanes + i, static_cast<uint32_t>(lane_count - i), shift);
}

TRIB_AVX512 void store_be32_avx512(int32_t* to, const std::byte* be, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx512Lanes <= lane_count; i += kAvx512Lanes) {
    _mm512_storeu_si512(to + i, swap512(_mm512_loadu_si512(be + i * sizeof(int32_t))));
  }
  if (i == lane_count) return;
  const __mmask16 rest = first_lanes(lane_count - i);
  const __m512i words = _mm512_maskz_loadu_epi32(rest, be + i * sizeof(int32_t));
  _mm512_mask_storeu_epi32(to + i, rest, swap512(words));
}

TRIB_AVX512 void add_be32_avx512(int32_t* to, const std::byte* be, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kUnroll * kAvx512Lanes <= lane_count; i += kUnroll * kAvx512Lanes) {
    __m512i sum[kUnroll];
    for (size_t k = 0; k < kUnroll; k++) {
      const size_t lane = i + k * kAvx512Lanes;
      const __m512i contribution = swap512(_mm512_loadu_si512(be + lane * sizeof(int32_t)));
      sum[k] = _mm512_add_epi32(_mm512_loadu_si512(to + lane), contribution);
    }
    for (size_t k = 0; k < kUnroll; k++) _mm512_storeu_si512(to + i + k * kAvx512Lanes, sum[k]);
  }
  for (; i + kAvx512Lanes <= lane_count; i += kAvx512Lanes) {
    const __m512i contribution = swap512(_mm512_loadu_si512(be + i * sizeof(int32_t)));
    _mm512_storeu_si512(to + i, _mm512_add_epi32(_mm512_loadu_si512(to + i), contribution));
  }
  if (i == lane_count) return;
  const __mmask16 rest = first_lanes(lane_count - i);
  const __m512i words = _mm512_maskz_loadu_epi32(rest, be + i * sizeof(int32_t));
  const __m512i sums = _mm512_add_epi32(_mm512_maskz_loadu_epi32(rest, to + i), swap512(words));
  _mm512_mask_storeu_epi32(to + i, rest, sums);
}

TRIB_AVX512 void to_be32_in_place_avx512(int32_t* lanes, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx512Lanes <= lane_count; i += kAvx512Lanes) {
    _mm512_storeu_si512(lanes + i, swap512(_mm512_loadu_si512(lanes + i)));
  }
  if (i == lane_count) return;
  const __mmask16 rest = first_lanes(lane_count - i);
  _mm512_mask_storeu_epi32(lanes + i, rest, swap512(_mm512_maskz_loadu_epi32(rest, lanes + i)));
}

TRIB_AVX512 void add_lanes_avx512(int32_t* to, const int32_t* from, uint32_t lane_count) {
  size_t i = 0;
  for (; i + kAvx512Lanes <= lane_count; i += kAvx512Lanes) {
    const __m512i sums = _mm512_add_epi32(_mm512_loadu_si512(to + i), _mm512_loadu_si512(from + i));
    _mm512_storeu_si512(to + i, sums);
  }
  if (i == lane_count) return;
  const __mmask16 rest = first_lanes(lane_count - i);
  const __m512i sums = _mm512_add_epi32(_mm512_maskz_loadu_epi32(rest, to + i),
                                        _mm512_maskz_loadu_epi32(rest, from + i));
  _mm512_mask_storeu_epi32(to + i, rest, sums);
}

}  // namespace tributary::memory::detail

#endif  // __x86_64__
