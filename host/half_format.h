// SPDX-License-Identifier: Apache-2.0
/// @file
/// The 16-bit floating-point types of training, widened to float32 on their way out and narrowed
/// once on their way back.
///
/// Shapes:  Spans of elements' bits; lanes as in host/number_format.h.
/// Bits:    Widening is exact. Narrowing rounds to nearest, ties to even, once: from the double
/// that
///          from_fixed() would round to float32. Both are plain integer and IEEE arithmetic, the
///          same on every machine.
/// Errors:  None; what is too large becomes an infinity, as the formats have it.
/// Threads: Pure functions.
/// Source:  binary16: IEEE 754-2019 §3.6; bfloat16: the upper half of a binary32.
/// Tests:   tests/host/half_format_test.cc (every 16-bit value)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary::host {

enum class HalfType : uint8_t {
  kFloat16,   ///< 5 bits of exponent, 10 of fraction.
  kBfloat16,  ///< 8 bits of exponent, 7 of fraction.
};

/// The value of these bits; NaN keeps its sign and what it can of its payload.
[[nodiscard]] float widen_half(uint16_t bits, HalfType type);
/// The nearest 16-bit value, ties to even; infinite from halfway past the largest one.
[[nodiscard]] uint16_t narrow_half(double value, HalfType type);

/// widen_half() of each element. @param wide Shape [halves.size()].
void widen_halves(std::span<const uint16_t> halves, HalfType type, float* wide);
/// Reads shape [4 * halves.size()] bytes of lanes: narrow_half() of what from_fixed() means.
void unpack_halves(const std::byte* lanes, float scale, uint32_t divisor, HalfType type,
                   std::span<uint16_t> halves);

}  // namespace tributary::host
