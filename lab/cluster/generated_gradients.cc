// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/generated_gradients.h"

#include <algorithm>

#include "base/assert.h"
#include "base/prng.h"

namespace tributary::lab {

int32_t generated_gradient(uint32_t rank, uint32_t iteration, uint32_t bucket, uint64_t element) {
  constexpr uint32_t kBits = 20;
  Prng prng(uint64_t{rank} << 56 ^ uint64_t{iteration} << 40 ^ uint64_t{bucket} << 32 ^ element);
  return static_cast<int32_t>(prng.any_u32() >> (32 - kBits)) - (1 << (kBits - 1));
}

host::SourceSet all_of(uint32_t count) {
  host::SourceSet set{};
  for (uint32_t rank = 0; rank < count; rank++) set[rank / 64] |= uint64_t{1} << rank % 64;
  return set;
}

uint64_t SumChecker::wrong_sums(std::span<const int32_t> sums, uint64_t first, uint64_t end,
                                const host::SourceSet& sources) const {
  uint64_t wrong = 0;
  for (uint64_t i = first; i < end; i++) {
    uint32_t expected = 0;
    for (uint32_t rank = 0; rank < workers_; rank++) {
      if (!host::contains(sources, rank)) continue;
      expected += static_cast<uint32_t>(generated_gradient(rank, iteration_, bucket_, i));
    }
    if (static_cast<uint32_t>(sums[i]) != expected) wrong++;
  }
  return wrong;
}

uint64_t SumChecker::wrong_sums_of_some(std::span<const int32_t> sums, uint64_t first, uint64_t end,
                                        uint32_t count) const {
  TRIB_ASSERT(workers_ <= 32 && count >= 1 && count <= workers_);
  uint64_t least = end - first;
  for (uint64_t set = (uint64_t{1} << count) - 1; set >> workers_ == 0 && least > 0;) {
    least = std::min(least, wrong_sums(sums, first, end, host::SourceSet{set}));
    // The next larger number with as many bits: the lowest run's highest bit moves up, the rest
    // of the run goes down to the end.
    const uint64_t lowest = set & (~set + 1);
    const uint64_t carried = set + lowest;
    set = carried | ((set ^ carried) / lowest >> 2);
  }
  return least;
}

}  // namespace tributary::lab
