// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/aging.h"

#include <utility>

#include "apps/trio_ml/recording.h"
#include "base/mutant.h"

namespace tributary::trio_ml {

namespace {

/// Tells whether a block lacks only sources that no further block waits for.
bool lacks_excluded_only(const Job& job, const BlockRecord& block) {
  for (uint32_t i = 0; i < block.expected.size(); i++) {
    const uint64_t missing = block.expected[i] & ~block.rcvd_mask[i];
    if ((missing & job.record.active_mask[i]) != 0) return false;
  }
  return true;
}

}  // namespace

void scan_places(Job& job, uint32_t begin, uint32_t end, Instant now, IdlePlaces& idle) {
  job.ref_bits.scan_idle(begin, end, [&job, &idle, now](uint32_t place) {
    BlockRecord& block = job.window.at_place(place);
    if (block.block_age < UINT8_MAX) block.block_age++;
    const bool idle_for_long =
        now - block.referenced_at >= job.config.timeout * (TRIB_MUTANT(kAgedTooLate) ? 2 : 1) ||
        TRIB_MUTANT(kAgedOneScanEarly);
    if (block.phase != BlockPhase::kAggregating || TRIB_MUTANT(kNeverAges)) return;
    const bool aged = job.config.mitigation && idle_for_long &&
                      job.session.all_present_for(job.config.timeout, now);
    const bool abandoned = job.config.excludes_silent() && lacks_excluded_only(job, block);
    if ((!aged && !abandoned) || !close(block)) return;
    stop_aging(job, block);
    idle.place[idle.count++] = place;
  });
}

uint32_t note_missing(Shard& shard, Job& job, const BlockRecord& block, Instant now) {
  uint32_t missing = 0;
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (!contains(block.expected, source) || contains(block.rcvd_mask, source)) continue;
    // The first of a period only: a straggler misses thousands of blocks.
    if (!std::exchange(job.sources[source].missed_block, true)) {
      shard.note(job, source, {.kind = EventKind::kStraggler, .value = block.block_id, .at = now});
    }
    record_block(shard, recorder::Kind::kTimedOut, job, recorded_rank(job, source), block.block_id,
                 now);
    missing++;
  }
  return missing;
}

}  // namespace tributary::trio_ml
