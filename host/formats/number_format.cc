// SPDX-License-Identifier: Apache-2.0
#include "host/formats/number_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/byte_order.h"
#include "host/formats/number_format_kernels.h"

namespace tributary::host {
namespace {

constexpr int32_t kFloatExponentBias = 127;
constexpr uint32_t kFloatFractionBits = 23;
constexpr int32_t kFloatExponentMax = 127;
constexpr int32_t kBlockExponentMin = -126;

/// Returns the fastest variant; chosen once.
const NumberFormatKernels& fastest() {
  static const NumberFormatKernels& chosen = number_format_kernels().back();
  return chosen;
}

/// The factors of a scale: float32 holds each, and their product with a value rounds at most once.
struct ScaleFactors {
  float first;
  float second;
};
ScaleFactors factors_of(double scale) {
  if (scale <= 0x1p127) return {1.0F, static_cast<float>(scale)};
  return {0x1p64F, static_cast<float>(scale * 0x1p-64)};
}

/// Returns rint(product), with 0 for NaN. Not limited to 2^31, which is above every lane limit.
int64_t wide_lane(float product) {
  if (std::isnan(product)) return 0;
  return static_cast<int64_t>(std::rint(std::clamp(product, -0x1p32F, 0x1p32F)));
}

/// Converts a block that has values that do not fit: clamps and reports them.
Fit pack_clamped(std::span<const float> tensor, ScaleFactors scale, int32_t magnitude_max,
                 std::byte* lanes) {
  const int64_t limit = magnitude_max;
  Fit worst = Fit::kFits;
  for (const float value : tensor) {
    const int64_t wide = wide_lane(value * scale.first * scale.second);
    const int64_t lane = std::clamp(wide, -limit, limit);
    if (!std::isfinite(value)) {
      worst = Fit::kNotFinite;
    } else if (lane != wide) {
      worst = std::max(worst, Fit::kOverflows);
    }
    store_be(lanes, static_cast<uint32_t>(lane));
    lanes += sizeof(uint32_t);
  }
  return worst;
}

/// Converts a block of tiny values, whose scale float32 cannot hold.
LaneRange pack_tiny(std::span<const float> tensor, ScaleFactors scale, std::byte* lanes) {
  std::array<float, 256> scaled;
  LaneRange range;
  while (!tensor.empty()) {
    const size_t count = std::min(tensor.size(), scaled.size());
    std::transform(tensor.begin(), tensor.begin() + static_cast<ptrdiff_t>(count), scaled.begin(),
                   [scale](float value) { return value * scale.first; });
    const LaneRange chunk = fastest().pack_fixed(scaled.data(), count, scale.second, lanes);
    range = {.has_zero = range.has_zero || chunk.has_zero,
             .largest = std::max(range.largest, chunk.largest)};
    tensor = tensor.subspan(count);
    lanes += count * sizeof(int32_t);
  }
  return range;
}

/// Returns the largest lane of a finite value below 2^`bits` (after scaling). The largest float32
/// is 24 bits below the power of two; with fewer integer bits, rint() rounds up to the power.
constexpr uint32_t lane_below_power(uint32_t bits) {
  constexpr uint32_t kSignificantBits = kFloatFractionBits + 1;
  return (1U << bits) - (bits < kSignificantBits ? 0U : 1U << (bits - kSignificantBits));
}
static_assert(lane_below_power(23) == 1U << 23);        // 2^23 - 0.5 rounds to 2^23.
static_assert(lane_below_power(24) == (1U << 24) - 1);  // No rounding.
static_assert(lane_below_power(31) == 0x7fffff80U);     // The largest float below 2^31.

/// Returns the most integer bits that each of `sources` lanes may have.
uint32_t lane_bits_max(uint32_t sources) {
  const auto limit = static_cast<uint32_t>(lane_magnitude_max(sources));
  uint32_t bits = 31;
  while (bits > 0 && lane_below_power(bits) > limit) bits--;
  return bits;
}

}  // namespace

double fixed_factor(double scale, uint32_t divisor) {
  // The product is exact: 24 bits times at most 29.
  return 1.0 / (scale * static_cast<double>(divisor));
}

int32_t to_fixed(float value, double scale) {
  const ScaleFactors factors = factors_of(scale);
  const float product = value * factors.first * factors.second;
  if (!(std::fabs(product) < 0x1p31F)) [[unlikely]] {
    return INT32_MIN;
  }
  return static_cast<int32_t>(std::rint(product));
}

float from_fixed(int32_t sum, double scale, uint32_t divisor) {
  return static_cast<float>(static_cast<double>(sum) * fixed_factor(scale, divisor));
}

int32_t lane_magnitude_max(uint32_t sources) {
  return static_cast<int32_t>(static_cast<uint32_t>(INT32_MAX) / std::max(sources, 1U));
}

Fit pack_fixed(std::span<const float> tensor, double scale, int32_t magnitude_max, std::byte* lanes,
               Underflow* underflow) {
  const ScaleFactors factors = factors_of(scale);
  // Nearly every block fits and has no lane of 0, so the fast loop only detects the others.
  const LaneRange range = factors.first == 1.0F ? fastest().pack_fixed(tensor.data(), tensor.size(),
                                                                       factors.second, lanes)
                                                : pack_tiny(tensor, factors, lanes);
  if (underflow != nullptr) {
    *underflow += range.has_zero ? fastest().count_underflow(tensor.data(), lanes, tensor.size())
                                 : Underflow{.nonzero = tensor.size()};
  }
  if (range.largest <= static_cast<uint32_t>(magnitude_max)) return Fit::kFits;
  return pack_clamped(tensor, factors, magnitude_max, lanes);
}

void unpack_fixed(const std::byte* lanes, double scale, uint32_t divisor, std::span<float> tensor) {
  fastest().unpack_fixed(lanes, tensor.size(), fixed_factor(scale, divisor), tensor.data());
}

void pack_int32(std::span<const int32_t> tensor, std::byte* lanes) {
  fastest().swap_words(std::as_bytes(tensor).data(), tensor.size(), lanes);
}

void unpack_int32(const std::byte* lanes, uint32_t divisor, std::span<int32_t> tensor) {
  if (divisor > 1) {
    fastest().divide_lanes(lanes, tensor.size(), divisor, tensor.data());
  } else {
    fastest().swap_words(lanes, tensor.size(), std::as_writable_bytes(tensor).data());
  }
}

int8_t block_exponent(std::span<const float> tensor) {
  const uint32_t bits = fastest().magnitude_bits_max(tensor.data(), tensor.size());
  if (bits == 0) return kNoExponent;
  // A biased exponent E means 2^(E - 127) <= |x| < 2^(E - 126); denormals have E = 0.
  const int32_t exponent =
      static_cast<int32_t>(bits >> kFloatFractionBits) - kFloatExponentBias + 1;
  return static_cast<int8_t>(std::clamp(exponent, kBlockExponentMin, kFloatExponentMax));
}

int8_t degraded_exponent(int8_t stated, int8_t reference) {
  int32_t base = stated == kNoExponent ? reference : stated;
  if (base == kNoExponent) base = 0;
  return static_cast<int8_t>(std::min(base + kDegradedHeadroom, kFloatExponentMax));
}

double scale_for_exponent(int8_t exponent, uint32_t sources) {
  if (exponent == kNoExponent) return 1.0;
  // The largest exponent also stands for values up to 2^128, the limit of float32.
  const int32_t bound = exponent == kFloatExponentMax ? kFloatExponentMax + 1 : exponent;
  return std::ldexp(1.0, static_cast<int32_t>(lane_bits_max(sources)) - bound);
}

double narrow_scale(int8_t exponent) {
  if (exponent == kNoExponent) return 1.0;
  constexpr int32_t kBits = 15;
  return std::ldexp(1.0, kBits - (exponent == kFloatExponentMax ? exponent + 1 : exponent));
}

void narrow_lanes(const std::byte* lanes, size_t count, std::byte* narrow) {
  fastest().narrow_lanes(lanes, count, narrow);
}

void widen_lanes(const std::byte* narrow, size_t count, std::byte* lanes) {
  fastest().widen_lanes(narrow, count, lanes);
}

bool is_as_precise(std::span<const float> tensor, double scale, double finer) {
  const auto rounded = [](float value, double factor) {
    // In double, because an element that fits with `scale` may exceed int32 with `finer`.
    return std::rint(static_cast<double>(value) * factor) / factor;
  };
  return std::all_of(tensor.begin(), tensor.end(),
                     [&](float value) { return rounded(value, scale) == rounded(value, finer); });
}

}  // namespace tributary::host
