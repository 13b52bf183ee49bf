// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts floats to the 32-bit integers that the aggregator adds, and back, in one pass between
/// a tensor and a packet (FloatFormat).
///
/// Shapes:  Lanes are big-endian int32 of any alignment, one for each element; 16-bit lanes are
///          big-endian int16. No overlap.
/// Bits:    One scalar function defines each result; the vector loops give the same bits on every
///          machine. No step could become a fused multiply-add. Rounding: the thread's mode.
/// Errors:  Fit reports a value that does not fit or is not finite. Every argument is defined.
/// Threads: Pure functions.
/// Source:  ATP §3.8 and appendix B.1 (fixed scale), SwitchML §4.6 (block exponent).
/// Tests:   tests/host/formats/number_format_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tributary::host {

/// The result of converting a block: the worst of its elements. Only BlockCodec returns kImprecise:
/// an element would be more precise if no rank had missed the round that agreed on the exponent.
enum class Fit : uint8_t { kFits, kImprecise, kOverflows, kNotFinite };

/// Returns the integer for `value`: rint(value * scale), ties to even, computed in float32; with a
/// scale above 2^127 in two steps, value * 2^64 first. This is the definition of the conversion.
/// INT32_MIN if the product is NaN or at least 2^31 in magnitude, like the processor's own
/// conversion; pack_fixed() never sends that.
[[nodiscard]] int32_t to_fixed(float value, double scale);

/// Returns the factor from an integer sum to its value: 1.0 / (scale * divisor), in double.
/// `divisor` is 1 for sums and the number of sources for means.
[[nodiscard]] double fixed_factor(double scale, uint32_t divisor);

/// Returns the float for an integer sum: float32(double(sum) * fixed_factor(scale, divisor));
/// infinite outside float32's range. Exact for a power-of-two scale and divisor if float32 can hold
/// the sum.
[[nodiscard]] float from_fixed(int32_t sum, double scale, uint32_t divisor);

/// Returns the largest |to_fixed()| that each of `sources` ranks may send without overflow:
/// floor((2^31 - 1) / sources). 0 sources count as 1.
/// Source: ATP appendix B.1 (no overflow below 2^31 / n).
[[nodiscard]] int32_t lane_magnitude_max(uint32_t sources);

/// The elements that were not 0, and those of them that became 0 as lanes.
struct Underflow {
  uint64_t nonzero = 0;
  uint64_t underflowed = 0;

  Underflow& operator+=(const Underflow& more) {
    nonzero += more.nonzero;
    underflowed += more.underflowed;
    return *this;
  }
  bool operator==(const Underflow&) const = default;
};

/// Writes to_fixed() of each element to `lanes` (shape [4 * tensor.size()] bytes), clamped to
/// +-magnitude_max, NaN as 0.
/// @param scale      A float32 above 0, or a power of two up to 2^190.
/// @param underflow  Not null: adds this tensor's counts.
/// @return kNotFinite if an element is infinite or NaN, else kOverflows if anything was clamped.
[[nodiscard]] Fit pack_fixed(std::span<const float> tensor, double scale, int32_t magnitude_max,
                             std::byte* lanes, Underflow* underflow = nullptr);
/// Reads shape [4 * tensor.size()] bytes of lanes into `tensor` by from_fixed().
void unpack_fixed(const std::byte* lanes, double scale, uint32_t divisor, std::span<float> tensor);

/// Writes the integers unchanged (sums wrap modulo 2^32).
void pack_int32(std::span<const int32_t> tensor, std::byte* lanes);
/// Reads integers. A `divisor` above 1 divides them, rounding toward zero; 0 and 1 do not.
void unpack_int32(const std::byte* lanes, uint32_t divisor, std::span<int32_t> tensor);

/// Returns the exponent e of a block for FloatFormat::kBlockExponent: the smallest one with
/// |x| < 2^e for all elements, in [-126, 127]; kNoExponent for a block of zeros. 127 also if
/// 2^127 <= |x|, infinities and NaN included (pack_fixed() reports those).
/// Source: SwitchML §4.6 (largest magnitude, rounded up to a power of two).
inline constexpr int8_t kNoExponent = -128;
[[nodiscard]] int8_t block_exponent(std::span<const float> tensor);

/// Returns the exponent that all ranks use for a block if `stated` came from a degraded result. A
/// straggler's values may be larger than those of the ranks in that result, and they have to fit.
/// So it is kDegradedHeadroom powers of two larger than `stated`; if that is kNoExponent, than
/// `reference`, the exponent of earlier blocks; if that is kNoExponent too, than 0.
/// Source: assumed; gradients of one step seldom differ by 256 times. For 4 ranks 21 of 29 bits are
/// left; float32 has 24.
inline constexpr int8_t kDegradedHeadroom = 8;
[[nodiscard]] int8_t degraded_exponent(int8_t stated, int8_t reference = kNoExponent);

/// The exponent that the ranks agreed on for a block.
struct AgreedExponent {
  int8_t exponent = kNoExponent;  ///< Every rank scales the block by it.
  /// The largest that a rank stated. It differs from `exponent` if a rank missed the round.
  int8_t stated = kNoExponent;
};

/// Returns the scale that all ranks use for a block whose largest exponent over all ranks is
/// `exponent`: the largest power of two with which `sources` finite values of that exponent cannot
/// overflow a sum. Up to 2^157, which float32 cannot hold.
/// 1 for kNoExponent, because every value is zero. Source: SwitchML §4.6, with 2^k for its
/// (2^31 - 1) / (n * 2^m), so that scaling rounds nothing.
[[nodiscard]] double scale_for_exponent(int8_t exponent, uint32_t sources);

/// Returns the scale for 16-bit lanes: the largest power of two with which finite values below
/// 2^exponent have lanes of at most kNarrowRoundedMax. It does not depend on the number of ranks,
/// because the aggregator divides the sum. 1 for kNoExponent.
[[nodiscard]] double narrow_scale(int8_t exponent);
/// The lane of a value that rounds up to 2^exponent. narrow_lanes() sends it as 32767.
inline constexpr int32_t kNarrowRoundedMax = 32768;

/// Copies `count` 32-bit lanes to 16-bit lanes, limited to +-32767.
void narrow_lanes(const std::byte* lanes, size_t count, std::byte* narrow);
/// Copies `count` 16-bit lanes to 32-bit lanes.
void widen_lanes(const std::byte* narrow, size_t count, std::byte* lanes);

/// Returns whether each element rounds to the same value with `scale` as with `finer`. Both are
/// powers of two, and every element fits with `scale`.
[[nodiscard]] bool is_as_precise(std::span<const float> tensor, double scale, double finer);

}  // namespace tributary::host
