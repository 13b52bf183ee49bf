// SPDX-License-Identifier: Apache-2.0
#include "host/formats/number_format_kernels.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/byte_order.h"
#include "host/formats/number_format.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tributary::host {
namespace {

constexpr size_t kLaneBytes = sizeof(int32_t);
constexpr size_t kNarrowBytes = sizeof(int16_t);
constexpr uint32_t kFloatMagnitudeBits = 0x7fffffffU;

// Plain C++: the definition. It also converts the tails of the vector loops.

constexpr uint32_t magnitude(int32_t lane) {
  const auto bits = static_cast<uint32_t>(lane);
  return lane < 0 ? 0U - bits : bits;
}

LaneRange pack_fixed_plain(const float* tensor, size_t count, float scale, std::byte* lanes) {
  LaneRange range;
  for (size_t i = 0; i < count; i++) {
    const int32_t lane = to_fixed(tensor[i], scale);
    range.has_zero |= lane == 0;
    range.largest = std::max(range.largest, magnitude(lane));
    store_be(lanes + i * kLaneBytes, static_cast<uint32_t>(lane));
  }
  return range;
}

Underflow count_underflow_plain(const float* tensor, const std::byte* lanes, size_t count) {
  Underflow counted;
  for (size_t i = 0; i < count; i++) {
    if (tensor[i] == 0.0F) continue;
    counted.nonzero++;
    if (load_be<uint32_t>(lanes + i * kLaneBytes) == 0) counted.underflowed++;
  }
  return counted;
}

void unpack_fixed_plain(const std::byte* lanes, size_t count, double factor, float* tensor) {
  for (size_t i = 0; i < count; i++) {
    const auto lane = static_cast<int32_t>(load_be<uint32_t>(lanes + i * kLaneBytes));
    tensor[i] = static_cast<float>(static_cast<double>(lane) * factor);
  }
}

void swap_words_plain(const std::byte* from, size_t count, std::byte* to) {
  for (size_t i = 0; i < count; i++) {
    uint32_t word;
    std::memcpy(&word, from + i * kLaneBytes, kLaneBytes);
    store_be(to + i * kLaneBytes, word);
  }
}

void divide_lanes_plain(const std::byte* lanes, size_t count, uint32_t divisor, int32_t* tensor) {
  for (size_t i = 0; i < count; i++) {
    const auto lane = static_cast<int32_t>(load_be<uint32_t>(lanes + i * kLaneBytes));
    tensor[i] = static_cast<int32_t>(int64_t{lane} / int64_t{divisor});
  }
}

uint32_t magnitude_bits_max_plain(const float* tensor, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; i++) {
    largest = std::max(largest, std::bit_cast<uint32_t>(tensor[i]) & kFloatMagnitudeBits);
  }
  return largest;
}

void narrow_lanes_plain(const std::byte* lanes, size_t count, std::byte* narrow) {
  for (size_t i = 0; i < count; i++) {
    const auto lane = static_cast<int32_t>(load_be<uint32_t>(lanes + i * kLaneBytes));
    const int32_t limited = std::clamp(lane, -INT16_MAX, +INT16_MAX);
    store_be(narrow + i * kNarrowBytes, static_cast<uint16_t>(limited));
  }
}

void widen_lanes_plain(const std::byte* narrow, size_t count, std::byte* lanes) {
  for (size_t i = 0; i < count; i++) {
    const auto lane = static_cast<int16_t>(load_be<uint16_t>(narrow + i * kNarrowBytes));
    store_be(lanes + i * kLaneBytes, static_cast<uint32_t>(int32_t{lane}));
  }
}

constexpr NumberFormatKernels kPlain{
    "plain",          pack_fixed_plain,   count_underflow_plain,    unpack_fixed_plain,
    swap_words_plain, divide_lanes_plain, magnitude_bits_max_plain, narrow_lanes_plain,
    widen_lanes_plain};

#if defined(__x86_64__)

// The vector loops. cvtps_epi32 rounds like rint() and gives INT32_MIN for values without an int32,
// like to_fixed(). abs_epi32 keeps INT32_MIN, which is 2^31 unsigned, like magnitude().
// An int32 quotient computed in double is right after truncation: quotients that are not whole are
// at least 2^-32 away from a whole number, and a double resolves 2^-21 of that below 2^31.

#define TRIB_AVX2 [[gnu::target("avx2,popcnt")]]
#define TRIB_AVX512 [[gnu::target("avx2,popcnt,avx512f,avx512bw")]]

/// Swaps the bytes of each 32-bit word of 16 bytes.
alignas(16) constexpr std::array<uint8_t, 16> kWordSwap{3,  2,  1, 0, 7,  6,  5,  4,
                                                        11, 10, 9, 8, 15, 14, 13, 12};

TRIB_AVX2 inline __m128i swap_mask_128() {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(kWordSwap.data()));
}
TRIB_AVX2 inline __m256i swap_mask_256() { return _mm256_broadcastsi128_si256(swap_mask_128()); }
TRIB_AVX512 inline __m512i swap_mask_512() {
  // The masked form with a mask of all ones, as GCC 12 warns inside the plain form (PR 105593).
  return _mm512_maskz_broadcast_i32x4(0xffff, swap_mask_128());
}

TRIB_AVX2 inline uint32_t largest_of(__m256i words) {
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, _MM_SHUFFLE(1, 0, 3, 2)));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, _MM_SHUFFLE(2, 3, 0, 1)));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(most));
}

TRIB_AVX2 LaneRange pack_fixed_avx2(const float* tensor, size_t count, float scale,
                                    std::byte* lanes) {
  const __m256i swap = swap_mask_256();
  const __m256 factor = _mm256_set1_ps(scale);
  __m256i zeros = _mm256_setzero_si256();
  __m256i largest = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i lane = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(tensor + i), factor));
    zeros = _mm256_or_si256(zeros, _mm256_cmpeq_epi32(lane, _mm256_setzero_si256()));
    largest = _mm256_max_epu32(largest, _mm256_abs_epi32(lane));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes + i * kLaneBytes),
                        _mm256_shuffle_epi8(lane, swap));
  }
  const LaneRange rest = pack_fixed_plain(tensor + i, count - i, scale, lanes + i * kLaneBytes);
  return {.has_zero = rest.has_zero || _mm256_movemask_epi8(zeros) != 0,
          .largest = std::max(largest_of(largest), rest.largest)};
}

TRIB_AVX2 Underflow count_underflow_avx2(const float* tensor, const std::byte* lanes,
                                         size_t count) {
  Underflow counted;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 given =
        _mm256_cmp_ps(_mm256_loadu_ps(tensor + i), _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const __m256i lane =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + i * kLaneBytes));
    const __m256i zero = _mm256_cmpeq_epi32(lane, _mm256_setzero_si256());
    const auto nonzero = static_cast<uint32_t>(_mm256_movemask_ps(given));
    const auto lost =
        nonzero & static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(zero)));
    counted.nonzero += static_cast<uint32_t>(std::popcount(nonzero));
    counted.underflowed += static_cast<uint32_t>(std::popcount(lost));
  }
  return counted += count_underflow_plain(tensor + i, lanes + i * kLaneBytes, count - i);
}

TRIB_AVX2 void unpack_fixed_avx2(const std::byte* lanes, size_t count, double factor,
                                 float* tensor) {
  const __m128i swap = swap_mask_128();
  const __m256d factors = _mm256_set1_pd(factor);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m128i lane = _mm_shuffle_epi8(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes + i * kLaneBytes)), swap);
    _mm_storeu_ps(tensor + i, _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtepi32_pd(lane), factors)));
  }
  unpack_fixed_plain(lanes + i * kLaneBytes, count - i, factor, tensor + i);
}

TRIB_AVX2 void swap_words_avx2(const std::byte* from, size_t count, std::byte* to) {
  const __m256i swap = swap_mask_256();
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i words =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * kLaneBytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * kLaneBytes),
                        _mm256_shuffle_epi8(words, swap));
  }
  swap_words_plain(from + i * kLaneBytes, count - i, to + i * kLaneBytes);
}

TRIB_AVX2 void divide_lanes_avx2(const std::byte* lanes, size_t count, uint32_t divisor,
                                 int32_t* tensor) {
  const __m128i swap = swap_mask_128();
  const __m256d divisors = _mm256_set1_pd(static_cast<double>(divisor));
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m128i lane = _mm_shuffle_epi8(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes + i * kLaneBytes)), swap);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(tensor + i),
                     _mm256_cvttpd_epi32(_mm256_div_pd(_mm256_cvtepi32_pd(lane), divisors)));
  }
  divide_lanes_plain(lanes + i * kLaneBytes, count - i, divisor, tensor + i);
}

TRIB_AVX2 uint32_t magnitude_bits_max_avx2(const float* tensor, size_t count) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int32_t>(kFloatMagnitudeBits));
  __m256i largest = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(tensor + i));
    largest = _mm256_max_epu32(largest, _mm256_and_si256(bits, mask));
  }
  return std::max(largest_of(largest), magnitude_bits_max_plain(tensor + i, count - i));
}

/// Swaps the bytes of each 16-bit word of 16 bytes.
alignas(16) constexpr std::array<uint8_t, 16> kHalfSwap{1, 0, 3,  2,  5,  4,  7,  6,
                                                        9, 8, 11, 10, 13, 12, 15, 14};

TRIB_AVX2 void narrow_lanes_avx2(const std::byte* lanes, size_t count, std::byte* narrow) {
  const __m256i swap = swap_mask_256();
  const __m256i swap_halves = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(kHalfSwap.data())));
  const __m256i least = _mm256_set1_epi16(-INT16_MAX);
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const auto* from = reinterpret_cast<const __m256i*>(lanes + i * kLaneBytes);
    const __m256i low = _mm256_shuffle_epi8(_mm256_loadu_si256(from), swap);
    const __m256i high = _mm256_shuffle_epi8(_mm256_loadu_si256(from + 1), swap);
    // The pack limits to int16, and interleaves the halves of its operands.
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(narrow + i * kNarrowBytes),
                        _mm256_shuffle_epi8(_mm256_max_epi16(packed, least), swap_halves));
  }
  narrow_lanes_plain(lanes + i * kLaneBytes, count - i, narrow + i * kNarrowBytes);
}

TRIB_AVX2 void widen_lanes_avx2(const std::byte* narrow, size_t count, std::byte* lanes) {
  const __m256i swap = swap_mask_256();
  const __m128i swap_halves = _mm_load_si128(reinterpret_cast<const __m128i*>(kHalfSwap.data()));
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i words =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(narrow + i * kNarrowBytes));
    const __m256i lane = _mm256_cvtepi16_epi32(_mm_shuffle_epi8(words, swap_halves));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes + i * kLaneBytes),
                        _mm256_shuffle_epi8(lane, swap));
  }
  widen_lanes_plain(narrow + i * kNarrowBytes, count - i, lanes + i * kLaneBytes);
}

constexpr NumberFormatKernels kAvx2{
    "avx2",          pack_fixed_avx2,   count_underflow_avx2,    unpack_fixed_avx2,
    swap_words_avx2, divide_lanes_avx2, magnitude_bits_max_avx2, narrow_lanes_avx2,
    widen_lanes_avx2};

TRIB_AVX512 inline uint32_t largest_of(__m512i words) {
  // The masked form, as in swap_mask_512().
  const __m256i lower = _mm512_maskz_extracti64x4_epi64(0xf, words, 0);
  const __m256i upper = _mm512_maskz_extracti64x4_epi64(0xf, words, 1);
  return largest_of(_mm256_max_epu32(lower, upper));
}

TRIB_AVX512 LaneRange pack_fixed_avx512(const float* tensor, size_t count, float scale,
                                        std::byte* lanes) {
  const __m512i swap = swap_mask_512();
  const __m512 factor = _mm512_set1_ps(scale);
  uint32_t zeros = 0;
  __m512i largest = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i lane = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(tensor + i), factor));
    zeros |= _mm512_testn_epi32_mask(lane, lane);
    largest = _mm512_max_epu32(largest, _mm512_abs_epi32(lane));
    _mm512_storeu_si512(lanes + i * kLaneBytes, _mm512_shuffle_epi8(lane, swap));
  }
  const LaneRange rest = pack_fixed_plain(tensor + i, count - i, scale, lanes + i * kLaneBytes);
  return {.has_zero = rest.has_zero || zeros != 0,
          .largest = std::max(largest_of(largest), rest.largest)};
}

TRIB_AVX512 Underflow count_underflow_avx512(const float* tensor, const std::byte* lanes,
                                             size_t count) {
  Underflow counted;
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i lane = _mm512_loadu_si512(lanes + i * kLaneBytes);
    const uint32_t nonzero =
        _mm512_cmp_ps_mask(_mm512_loadu_ps(tensor + i), _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const uint32_t lost = nonzero & _mm512_testn_epi32_mask(lane, lane);
    counted.nonzero += static_cast<uint32_t>(std::popcount(nonzero));
    counted.underflowed += static_cast<uint32_t>(std::popcount(lost));
  }
  return counted += count_underflow_plain(tensor + i, lanes + i * kLaneBytes, count - i);
}

TRIB_AVX512 void unpack_fixed_avx512(const std::byte* lanes, size_t count, double factor,
                                     float* tensor) {
  const __m256i swap = swap_mask_256();
  const __m512d factors = _mm512_set1_pd(factor);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i lane = _mm256_shuffle_epi8(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + i * kLaneBytes)), swap);
    _mm256_storeu_ps(tensor + i, _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_cvtepi32_pd(lane), factors)));
  }
  unpack_fixed_plain(lanes + i * kLaneBytes, count - i, factor, tensor + i);
}

TRIB_AVX512 void swap_words_avx512(const std::byte* from, size_t count, std::byte* to) {
  const __m512i swap = swap_mask_512();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i words = _mm512_loadu_si512(from + i * kLaneBytes);
    _mm512_storeu_si512(to + i * kLaneBytes, _mm512_shuffle_epi8(words, swap));
  }
  swap_words_plain(from + i * kLaneBytes, count - i, to + i * kLaneBytes);
}

TRIB_AVX512 void divide_lanes_avx512(const std::byte* lanes, size_t count, uint32_t divisor,
                                     int32_t* tensor) {
  const __m256i swap = swap_mask_256();
  const __m512d divisors = _mm512_set1_pd(static_cast<double>(divisor));
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i lane = _mm256_shuffle_epi8(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + i * kLaneBytes)), swap);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(tensor + i),
                        _mm512_cvttpd_epi32(_mm512_div_pd(_mm512_cvtepi32_pd(lane), divisors)));
  }
  divide_lanes_plain(lanes + i * kLaneBytes, count - i, divisor, tensor + i);
}

TRIB_AVX512 uint32_t magnitude_bits_max_avx512(const float* tensor, size_t count) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int32_t>(kFloatMagnitudeBits));
  __m512i largest = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i bits = _mm512_castps_si512(_mm512_loadu_ps(tensor + i));
    largest = _mm512_max_epu32(largest, _mm512_and_si512(bits, mask));
  }
  return std::max(largest_of(largest), magnitude_bits_max_plain(tensor + i, count - i));
}

constexpr NumberFormatKernels kAvx512{
    "avx512",          pack_fixed_avx512,   count_underflow_avx512,    unpack_fixed_avx512,
    swap_words_avx512, divide_lanes_avx512, magnitude_bits_max_avx512, narrow_lanes_avx2,
    widen_lanes_avx2};

constexpr std::array kAll{kPlain, kAvx2, kAvx512};

size_t runnable_count() {
  if (!__builtin_cpu_supports("avx2")) return 1;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")) return 2;
  return 3;
}

#else

constexpr std::array kAll{kPlain};
size_t runnable_count() { return 1; }

#endif

}  // namespace

std::span<const NumberFormatKernels> number_format_kernels() {
  // Chosen at run time and kept in a variable. The loader (ifunc) would choose before a sanitizer's
  // run time is ready.
  static const size_t count = runnable_count();
  return std::span(kAll).first(count);
}

}  // namespace tributary::host
