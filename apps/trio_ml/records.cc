// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/records.h"

#include <bit>

namespace tributary::trio_ml {

uint32_t count(const SourceMask& mask) {
  uint32_t sum = 0;
  for (const uint64_t word : mask) sum += static_cast<uint32_t>(std::popcount(word));
  return sum;
}

uint32_t first_of(const SourceMask& mask) {
  uint32_t source = 0;
  while (source < wire::kSourcesMax && !contains(mask, source)) source++;
  return source;
}

SourceMask first_sources(uint32_t source_count) {
  SourceMask mask{};
  for (uint32_t source = 0; source < source_count; source++) include(mask, source);
  return mask;
}

}  // namespace tributary::trio_ml
