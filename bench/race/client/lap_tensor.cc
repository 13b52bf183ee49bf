// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/lap_tensor.h"

namespace tributary::race {
namespace {

constexpr uint32_t kPatternBias = 1 << 15;
constexpr float kUnit = 1.0F / (1 << kFractionBits);

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
                     uint32_t reduction, uint32_t weight) {
  uint64_t wrong = 0;
  for (uint64_t i = first; i < end; i++) {
    wrong += tensor[i] == value(reduction, i, weight) ? 0 : 1;
  }
  return wrong;
}

}  // namespace

void fill(std::span<float> tensor, uint32_t rank, uint32_t reduction) {
  for (uint64_t i = 0; i < tensor.size(); i++) tensor[i] = value(reduction, i, rank + 1);
}

uint64_t count_wrong(std::span<const float> tensor, uint32_t workers, uint32_t reduction,
                     std::span<const PartialSum> partial) {
  const uint32_t whole_weight = workers * (workers + 1) / 2;
  uint64_t wrong = 0;
  uint64_t at = 0;
  for (const PartialSum& part : partial) {
    const bool fits = part.element_first >= at && part.element_first <= tensor.size() &&
                      part.element_count <= tensor.size() - part.element_first;
    if (!fits) return tensor.size();
    wrong += count_range(tensor, at, part.element_first, reduction, whole_weight);
    at = part.element_first + part.element_count;
    wrong += count_range(tensor, part.element_first, at, reduction, part.weight);
  }
  return wrong + count_range(tensor, at, tensor.size(), reduction, whole_weight);
}

}  // namespace tributary::race
