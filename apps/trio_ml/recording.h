// SPDX-License-Identifier: Apache-2.0
/// @file
/// The aggregation program's events for the flight recorder.
///
/// Model:   Contributions and results come in runs of consecutive blocks, which lie in the job. A
///          block that continues its run costs a comparison and an addition, with and without a
///          recorder; any other begins a run (recorder::Writer).
/// Threads: The shard's core.
/// Tests:   tests/apps/trio_ml/recording_test.cc
#pragma once

#include "apps/trio_ml/counters.h"
#include "apps/trio_ml/event.h"
#include "apps/trio_ml/shard.h"
#include "recorder/flight_recorder.h"
#include "recorder/writer.h"

namespace tributary::trio_ml {

/// Returns the first rank below a lower aggregator, as in the log; without a session, and if ranks
/// overlap, the aggregator's number.
[[nodiscard]] uint32_t first_rank_below(const Job& job, uint32_t source);

/// Returns the rank of a source.
[[nodiscard]] inline uint32_t recorded_rank(const Job& job, uint32_t source) {
  if (job.config.sources_are_aggregators) [[unlikely]]
    return first_rank_below(job, source);
  return job.config.rank_base + source;
}

/// Records that something happened to a block.
inline void record_block(const Shard& shard, recorder::Kind kind, const Job& job, uint32_t rank,
                         uint32_t block_id, Instant now) {
  if (recorder::Writer* const writer = shard.record_writer(); writer != nullptr) {
    writer->add(kind, job.config.id, rank, block_id, now);
  }
}

/// Records that something happened to a block that does not continue the job's run.
[[gnu::noinline]] void begin_run(const Shard& shard, recorder::Kind kind, const Job& job,
                                 recorder::BlockRun& run, uint32_t rank, uint32_t block_id,
                                 Instant now);

/// Records a contribution that was added.
inline void record_arrival(const Shard& shard, Job& job, const wire::TrioMlFields& header,
                           Instant now) {
  recorder::BlockRun& run = job.arrivals[header.src_id];
  if (run.take(header.block_id)) [[likely]]
    return;
  begin_run(shard, recorder::Kind::kArrived, job, run, recorded_rank(job, header.src_id),
            header.block_id, now);
}

/// Records a result with every expected contribution.
inline void record_completion(const Shard& shard, Job& job, uint32_t block_id, Instant now) {
  if (job.completions.take(block_id)) [[likely]]
    return;
  begin_run(shard, recorder::Kind::kCompleted, job, job.completions, recorder::kNoRank, block_id,
            now);
}

/// Records a refused packet, unless the budget for refusals is spent.
/// @param job Null: unknown.
[[gnu::cold]] void record_refusal(Shard& shard, Outcome why, const Job* job,
                                  const wire::TrioMlFields& header, Instant now);

/// Returns an event of the log as one of the recorder.
[[nodiscard]] recorder::Event recorded(const Event& event);

/// Returns the texts of outcomes and reasons.
[[nodiscard]] std::vector<recorder::Label> record_labels();

}  // namespace tributary::trio_ml
