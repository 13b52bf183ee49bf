// SPDX-License-Identifier: Apache-2.0
/// @file
/// Floats as the 32-bit integers that the aggregator adds, and back: the arithmetic of
/// FloatFormat, one pass each way, straight between a tensor and a packet.
///
/// Shapes:  Packet lanes are big-endian int32 of any alignment, as many as the tensor span. Lanes
///          and tensor must not overlap.
/// Bits:    Every result is defined by one scalar function, and the vector loops
///          (host/number_format_kernels.h) produce the same bits on every machine. No step is a
///          product followed by an addition, so fused multiply-add cannot change anything, with
///          any -ffp-contract. Rounding is the thread's current mode, to nearest by default.
/// Errors:  A value that does not fit, or is not finite, is reported by Fit; nothing throws, and
///          no argument is undefined behaviour.
/// Threads: Pure functions.
/// Source:  ATP §3.8 and appendix B.1 (fixed scale), SwitchML §4.6 (block exponent).
/// Tests:   tests/host/number_format_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary::host {

/// Whether a block could be converted; the worst of its elements.
enum class Fit : uint8_t { kFits, kOverflows, kNotFinite };

/// The integer that stands for `value`: rint(value * scale), ties to even, computed in float32.
/// The one definition of the conversion. INT32_MIN where that is NaN or 2^31 or more in magnitude,
/// as the processor's own conversion says it; pack_fixed() never sends that.
[[nodiscard]] int32_t to_fixed(float value, float scale);

/// What an integer sum is multiplied by to become a number: 1.0 / (scale * divisor), in double.
/// `divisor` is 1 for sums, the number of sources for means.
[[nodiscard]] double fixed_factor(float scale, uint32_t divisor);

/// The float that stands for an integer sum: float32(double(sum) * fixed_factor(scale, divisor));
/// infinite where float32 ends. Exact for a power-of-two scale and divisor as far as float32 can
/// hold the sum.
[[nodiscard]] float from_fixed(int32_t sum, float scale, uint32_t divisor);

/// Largest |to_fixed()| that each of `sources` ranks may send so that no sum can overflow:
/// floor((2^31 - 1) / sources). 0 sources count as 1.
/// Source: ATP appendix B.1 (no overflow below 2^31 / n).
[[nodiscard]] int32_t lane_magnitude_max(uint32_t sources);

/// Writes to_fixed() of each element to `lanes` (shape [4 * tensor.size()] bytes), clamped to
/// +-magnitude_max, NaN as 0.
/// @param scale  Finite and above 0.
/// @return kNotFinite if an element is infinite or NaN, else kOverflows if anything was clamped.
[[nodiscard]] Fit pack_fixed(std::span<const float> tensor, float scale, int32_t magnitude_max,
                             std::byte* lanes);
/// Reads shape [4 * tensor.size()] bytes of lanes into `tensor` by from_fixed().
void unpack_fixed(const std::byte* lanes, float scale, uint32_t divisor, std::span<float> tensor);

/// Integers as they are (sum wraps modulo 2^32).
void pack_int32(std::span<const int32_t> tensor, std::byte* lanes);
/// `divisor` > 1 divides, rounding toward zero; 0 and 1 do not.
void unpack_int32(const std::byte* lanes, uint32_t divisor, std::span<int32_t> tensor);

/// The exponent e of a block for FloatFormat::kBlockExponent: the smallest with |x| < 2^e for all
/// elements, in [-126, 127]; kNoExponent for a block of zeros. 127 also where 2^127 <= |x|,
/// infinities and NaN included (pack_fixed() reports those).
/// Source: SwitchML §4.6 (largest magnitude, rounded up to a power of two).
inline constexpr int8_t kNoExponent = -128;
[[nodiscard]] int8_t block_exponent(std::span<const float> tensor);

/// The exponent that all ranks use for a block when `known` was agreed without every rank, by a
/// degraded result: a straggler's values may be larger than those of the ranks that were in time,
/// and still have to fit. kDegradedHeadroom powers of two more; kNoExponent counts as 0.
/// Source: assumed; gradients of one step seldom differ by 256 times, and for 4 ranks 21 of 29 bits
/// are left, where float32 has 24.
inline constexpr int8_t kDegradedHeadroom = 8;
[[nodiscard]] int8_t degraded_exponent(int8_t known);

/// The scale that all ranks use for a block whose largest exponent over all ranks is `exponent`:
/// the largest power of two so that `sources` finite values of that exponent cannot overflow a
/// sum, but at most 2^127, so blocks below about 2^-96 keep fewer than 31 bits.
/// 1 for kNoExponent (every value is zero then). Source: SwitchML §4.6, with 2^k for its
/// (2^31 - 1) / (n * 2^m), so that scaling rounds nothing.
[[nodiscard]] float scale_for_exponent(int8_t exponent, uint32_t sources);

}  // namespace tributary::host
