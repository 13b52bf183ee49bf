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
