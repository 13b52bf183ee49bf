// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts the 16-bit floating-point types of training: widens them to float32 before they are
/// sent, and narrows results once.
///
/// Shapes:  Spans of elements' bits; lanes as in host/formats/number_format.h.
/// Bits:    Widening is exact. Narrowing rounds once, to nearest, ties to even, from the double
///          that from_fixed() would round to float32. Integer and IEEE arithmetic only, so every
///          machine gives the same bits.
/// Errors:  None; a value that is too large becomes an infinity, as in the formats' standards.
/// Threads: Pure functions.
/// Source:  binary16: IEEE 754-2019 §3.6; bfloat16: the upper half of a binary32.
/// Tests:   tests/host/formats/half_format_test.cc (every 16-bit value)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary::host {

enum class HalfType : uint8_t {
  kFloat16,   ///< 5 bits of exponent, 10 of fraction.
  kBfloat16,  ///< 8 bits of exponent, 7 of fraction.
};

/// Returns the value of these bits. A NaN keeps its sign and as much of its payload as fits.
[[nodiscard]] float widen_half(uint16_t bits, HalfType type);
/// Returns the nearest 16-bit value, ties to even; infinite from halfway past the largest one.
[[nodiscard]] uint16_t narrow_half(double value, HalfType type);

/// Writes widen_half() of each element. @param wide Shape [halves.size()].
void widen_halves(std::span<const uint16_t> halves, HalfType type, float* wide);
/// Reads lanes of shape [4 * halves.size()] bytes: applies from_fixed() without its rounding, then
/// narrow_half().
void unpack_halves(const std::byte* lanes, double scale, uint32_t divisor, HalfType type,
                   std::span<uint16_t> halves);

}  // namespace tributary::host
