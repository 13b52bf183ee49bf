// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/records.h"

#include <algorithm>
#include <bit>

namespace tributary::trio_ml {

uint32_t count(const SourceMask& mask) {
  uint32_t sum = 0;
  for (const uint64_t word : mask) sum += static_cast<uint32_t>(std::popcount(word));
  return sum;
}

SourceMask first_sources(uint32_t source_count) {
  SourceMask mask{};
  for (uint32_t source = 0; source < source_count; source++) include(mask, source);
  return mask;
}

Admission admit(BlockRecord& block, uint16_t incarnation, uint32_t source, Instant now) {
  if (block.incarnation != incarnation || block.closing) return Admission::kClosed;
  if (contains(block.rcvd_mask, source)) return Admission::kDuplicate;
  include(block.rcvd_mask, source);
  block.admitted++;
  block.block_age = 0;
  block.referenced_at = now;
  return Admission::kAdmitted;
}

bool settle(BlockRecord& block, const Contribution& contribution) {
  block.rcvd_cnt++;
  block.src_cnt = static_cast<uint16_t>(block.src_cnt + contribution.src_cnt);
  block.exponent = std::max(block.exponent, contribution.exponent);
  block.flags |= contribution.flags;
  block.final |= contribution.final;
  block.degraded |= contribution.degraded;
  bool complete = true;
  for (uint32_t i = 0; i < block.expected.size(); i++) {
    block.ranks[i] |= contribution.ranks[i];
    complete &= (block.expected[i] & ~block.rcvd_mask[i]) == 0;
  }
  block.closing |= complete;
  return block.closing && block.rcvd_cnt == block.admitted;
}

bool close(BlockRecord& block) {
  block.closing = true;
  return block.rcvd_cnt == block.admitted;
}

}  // namespace tributary::trio_ml
