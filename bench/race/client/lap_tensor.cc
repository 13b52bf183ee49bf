// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/lap_tensor.h"

#include <bit>
#include <cmath>

namespace tributary::race {
namespace {

constexpr uint32_t kPatternBias = 1 << 15;
constexpr float kUnit = 1.0F / (1 << kFractionBits);

// The compiler's own float16 converts in software or by F16C, and rounds to nearest, ties to even.
// The programs of the rivals do not link host/formats/half_format.h.
uint16_t half_of(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
float float_of(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

/// Returns 16 bits of a multiplicative hash as a signed number. The constants are odd numbers that
/// spread well; they have no other meaning.
int32_t pattern(uint32_t reduction, uint32_t index) {
  const uint32_t mixed = index * 0x9e3779b1U + reduction * 0x85ebca6bU;
  return static_cast<int32_t>(mixed >> 16) - static_cast<int32_t>(kPatternBias);
}

/// Returns the sum of ranks with this `weight`. It is exact: a whole number below 2^24 times a
/// power of two.
float value(uint32_t reduction, uint64_t index, uint32_t weight) {
  const int32_t whole =
      pattern(reduction, static_cast<uint32_t>(index)) * static_cast<int32_t>(weight);
  return static_cast<float>(whole) * kUnit;
}

uint64_t count_range(std::span<const float> tensor, uint64_t first, uint64_t end,
                     uint32_t reduction, uint32_t weight, const Tolerance& tolerance) {
  uint64_t wrong = 0;
  for (uint64_t i = first; i < end; i++) {
    const double expected = value(reduction, i, weight);
    const double bound = tolerance.absolute + tolerance.of_sum * std::abs(expected);
    wrong += std::abs(tensor[i] - expected) <= bound ? 0 : 1;
  }
  return wrong;
}

}  // namespace

Tolerance narrow_tolerance(uint32_t workers) {
  const double largest = static_cast<double>(kPatternBias) * static_cast<double>(kUnit) * workers;
  const double roundings = workers + static_cast<double>(std::bit_ceil(workers));
  return {.absolute = roundings * 0x1p-15 * largest, .of_sum = 0x1p-23};
}

void to_halves(std::span<const float> tensor, std::span<uint16_t> halves) {
  for (size_t i = 0; i < tensor.size(); i++) halves[i] = half_of(tensor[i]);
}

void from_halves(std::span<const uint16_t> halves, std::span<float> tensor) {
  for (size_t i = 0; i < halves.size(); i++) tensor[i] = float_of(halves[i]);
}

void add_halves(const uint16_t* from, uint16_t* to, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = half_of(float_of(from[i]) + float_of(to[i]));
}

void fill(std::span<float> tensor, uint32_t rank, uint32_t reduction) {
  for (uint64_t i = 0; i < tensor.size(); i++) tensor[i] = value(reduction, i, rank + 1);
}

uint64_t count_wrong(std::span<const float> tensor, uint32_t workers, uint32_t reduction,
                     std::span<const PartialSum> partial, const Tolerance& tolerance) {
  const uint32_t whole_weight = workers * (workers + 1) / 2;
  uint64_t wrong = 0;
  uint64_t at = 0;
  for (const PartialSum& part : partial) {
    const bool fits = part.element_first >= at && part.element_first <= tensor.size() &&
                      part.element_count <= tensor.size() - part.element_first;
    if (!fits) return tensor.size();
    wrong += count_range(tensor, at, part.element_first, reduction, whole_weight, tolerance);
    at = part.element_first + part.element_count;
    wrong += count_range(tensor, part.element_first, at, reduction, part.weight, tolerance);
  }
  return wrong + count_range(tensor, at, tensor.size(), reduction, whole_weight, tolerance);
}

}  // namespace tributary::race
