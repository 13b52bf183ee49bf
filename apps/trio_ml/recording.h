// SPDX-License-Identifier: Apache-2.0
/// @file
/// The aggregation program's events for the flight recorder.
///
/// Model:   A block's event costs a comparison and a store if the block continues a train, and about
///          thirty stores otherwise. Without a recorder it costs one comparison.
/// Threads: The shard's core.
/// Tests:   tests/apps/trio_ml/recording_test.cc
#pragma once

#include "apps/trio_ml/counters.h"
#include "apps/trio_ml/event.h"
#include "apps/trio_ml/shard.h"
#include "recorder/flight_recorder.h"
#include "recorder/writer.h"

namespace tributary::trio_ml {

/// Returns the rank of a source; the number of a lower aggregator in a job of aggregators.
[[nodiscard]] inline uint32_t recorded_rank(const Job& job, uint32_t source) {
  return job.config.rank_base + source;
}

/// Records that something happened to a block.
inline void record_block(const Shard& shard, recorder::Kind kind, const Job& job, uint32_t rank,
                         uint32_t block_id, Instant now) {
  if (recorder::Writer* const writer = shard.record_writer(); writer != nullptr) {
    writer->add(kind, job.config.id, rank, block_id, now);
  }
}

/// Records a contribution that was added.
inline void record_arrival(const Shard& shard, const Job& job, const wire::TrioMlFields& header,
                           Instant now) {
  record_block(shard, recorder::Kind::kArrived, job, recorded_rank(job, header.src_id),
               header.block_id, now);
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
