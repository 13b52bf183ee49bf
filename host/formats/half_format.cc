// SPDX-License-Identifier: Apache-2.0
#include "host/formats/half_format.h"

#include <algorithm>
#include <bit>

#include "base/byte_order.h"
#include "host/formats/number_format.h"

namespace tributary::host {
namespace {

constexpr uint32_t kSignBit = 0x80000000U;
constexpr uint32_t kInfinityBits = 0x7f800000U;

constexpr uint32_t kHalfFractionShift = 13;                  ///< 23 - 10 bits of fraction.
constexpr uint32_t kHalfRebias = (127U - 15U) << 23;         ///< Between the exponents' biases.
constexpr uint32_t kHalfNormalMinBits = (127U - 14U) << 23;  ///< 2^-14, the least normal binary16.
constexpr uint32_t kHalfTooLargeBits = (127U + 16U) << 23;   ///< 2^16, infinite in binary16.
constexpr uint32_t kHalfInfinity = 0x7c00U;
/// 2^-1. Its last bit is 2^-24, the unit of denormal binary16, so adding it aligns their bits.
constexpr float kHalfDenormalAnchor = 0.5F;

/// Returns `value` as float32 if that is exact, else the neighbouring float32 with an odd last bit
/// ("round to odd"). Rounding the result to at most 22 bits equals rounding `value` itself, so
/// nothing is rounded twice.
inline uint32_t to_odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  const bool exact = back == value || value != value;
  const bool away = (back > value) == (value > 0);  // Rounded away from zero.
  const uint32_t odd = away ? bits - 1 : bits + 1;
  return exact || (bits & 1) != 0 ? bits : odd;
}

inline uint16_t narrow_bfloat16(double value) {
  const uint32_t bits = to_odd_float(value);
  const uint32_t quiet = (bits >> 16) | 0x40U;
  const uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return static_cast<uint16_t>((bits & ~kSignBit) > kInfinityBits ? quiet : rounded);
}

inline uint16_t narrow_float16(double value) {
  const uint32_t bits = to_odd_float(value);
  const uint32_t magnitude = bits & ~kSignBit;
  const uint32_t sign = bits >> 16 & 0x8000U;
  const uint32_t normal =
      (magnitude - kHalfRebias + 0xfffU + (magnitude >> kHalfFractionShift & 1U)) >>
      kHalfFractionShift;
  const float small = std::bit_cast<float>(std::min(magnitude, kHalfNormalMinBits));
  const uint32_t denormal = std::bit_cast<uint32_t>(small + kHalfDenormalAnchor) -
                            std::bit_cast<uint32_t>(kHalfDenormalAnchor);
  const uint32_t large = magnitude > kInfinityBits ? kHalfInfinity | 0x200U : kHalfInfinity;
  uint32_t half = magnitude < kHalfNormalMinBits ? denormal : normal;
  half = magnitude >= kHalfTooLargeBits ? large : half;
  return static_cast<uint16_t>(half | sign);
}

inline float widen_float16(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t magnitude = half & 0x7fffU;
  const uint32_t shifted = magnitude << kHalfFractionShift;
  // A denormal is a whole number of 2^-24.
  const auto small = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
  uint32_t bits = magnitude < 0x400U ? small : shifted + kHalfRebias;
  bits = magnitude >= kHalfInfinity ? shifted | kInfinityBits : bits;
  return std::bit_cast<float>(bits | sign);
}

inline float widen_bfloat16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

template <uint16_t (*kNarrow)(double)>
void unpack(const std::byte* lanes, double factor, std::span<uint16_t> halves) {
  for (size_t i = 0; i < halves.size(); i++) {
    const auto lane = static_cast<int32_t>(load_be<uint32_t>(lanes + i * sizeof(int32_t)));
    halves[i] = kNarrow(static_cast<double>(lane) * factor);
  }
}

}  // namespace

float widen_half(uint16_t bits, HalfType type) {
  return type == HalfType::kFloat16 ? widen_float16(bits) : widen_bfloat16(bits);
}

uint16_t narrow_half(double value, HalfType type) {
  return type == HalfType::kFloat16 ? narrow_float16(value) : narrow_bfloat16(value);
}

void widen_halves(std::span<const uint16_t> halves, HalfType type, float* wide) {
  if (type == HalfType::kFloat16) {
    for (size_t i = 0; i < halves.size(); i++) wide[i] = widen_float16(halves[i]);
  } else {
    for (size_t i = 0; i < halves.size(); i++) wide[i] = widen_bfloat16(halves[i]);
  }
}

void unpack_halves(const std::byte* lanes, double scale, uint32_t divisor, HalfType type,
                   std::span<uint16_t> halves) {
  const double factor = fixed_factor(scale, divisor);
  if (type == HalfType::kFloat16) {
    unpack<narrow_float16>(lanes, factor, halves);
  } else {
    unpack<narrow_bfloat16>(lanes, factor, halves);
  }
}

}  // namespace tributary::host
