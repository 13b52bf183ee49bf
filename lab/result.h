// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a run has shown, as plain data.
///
/// Units:   Times as Duration, counts of real packets and blocks: with trains of k each simulated
///          one counts k times, unless a field says "simulated".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace tributary::lab {

/// Order statistics of many durations. The least one and percentiles are at most 3.2 % above the
/// true ones; mean and greatest are exact.
struct DurationSummary {
  uint64_t count = 0;
  Duration mean;
  Duration min;
  Duration p50;
  Duration p90;
  Duration p99;
  Duration max;
};

/// Where a worker's time went, and what became of its contributions.
struct WorkerResult {
  Duration computed;
  Duration waited;                  ///< For the network after its computation had ended.
  Duration slept;                   ///< By the straggler pattern.
  uint32_t iterations = 0;          ///< Completed.
  uint32_t iterations_skipped = 0;  ///< Of these, with computation left out to catch up.
  uint64_t contributions = 0;       ///< Blocks it sent.
  uint64_t contributions_lost = 0;  ///< Of these, complete without it.
  uint64_t sums_missed = 0;         ///< Blocks whose sum nobody keeps for it.
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  /// On its host's cable, with every header and gap; a server beside the worker sends here, too.
  uint64_t wire_bytes_sent = 0;
  uint64_t wire_bytes_received = 0;
  uint64_t retransmissions = 0;
  uint64_t probes = 0;
  uint64_t receive_overflows = 0;  ///< Lost in its full receive buffer.
  bool dropped_out = false;        ///< Desynchronised; the others went on.
  Duration finished_at;            ///< Its last iteration's end.
};

/// One direction of a cable.
struct LinkResult {
  std::string name;
  uint64_t packets = 0;
  uint64_t bytes = 0;  ///< On the wire.
  uint64_t lost = 0;   ///< All kinds together.
  uint64_t marked = 0;
  uint64_t queue_bytes_peak = 0;
  double utilisation = 0;  ///< Of its rate, over the whole run.
};

/// The part of every aggregator whose memory is modelled: what its job takes, in MB (10^6 bytes).
inline constexpr char kMemoryPart[] = "memory of the job";
/// Likewise: packets of a worker that it adds up at the same time.
inline constexpr char kSlotsPart[] = "slots";

/// One aggregator, for people and for figures; the names of the parts are those of its model.
struct AggregatorResult {
  struct Part {
    std::string name;
    double value;
    std::string unit;
  };
  std::string name;
  uint64_t packets = 0;
  uint64_t dropped = 0;
  DurationSummary latency;  ///< Of contributions inside the aggregator.
  std::vector<Part> parts;  ///< Occupancies, instructions per packet, …
  std::string bottleneck;
};

/// Bins of a timeline; what a link carries later is counted together.
inline constexpr size_t kTimelineBinsMax = 100'000;

struct RunResult {
  // Headline.
  Duration mean_iteration;  ///< Time to the last iteration's end of the median worker / iterations.
  Duration total;           ///< Until the last worker has finished.
  std::vector<Duration> iterations;  ///< Between the median worker's ends.
  Duration typical_iteration;        ///< That the straggler pattern used; zero without one.
  std::string bottleneck;            ///< One line: which resource was the limit.

  std::vector<WorkerResult> workers;
  uint64_t blocks = 0;           ///< Results taken, over all workers.
  uint64_t degraded_blocks = 0;  ///< Of these, without all sources.
  [[nodiscard]] double degraded_fraction() const {
    return blocks == 0 ? 0 : static_cast<double>(degraded_blocks) / static_cast<double>(blocks);
  }
  DurationSummary block_latency;  ///< Sending a contribution to taking its result, at the workers.
  uint64_t wrong_sums = 0;        ///< Elements that differ from their source set's sum.
  uint64_t checked_sums = 0;      ///< Elements that were compared.

  std::vector<LinkResult> links;
  /// By bin of the scenario's timeline, from the training's begin; empty without one.
  std::vector<uint64_t> timeline;
  uint64_t timeline_later = 0;  ///< Packets after kTimelineBinsMax bins.
  std::vector<AggregatorResult> aggregators;

  uint64_t packets = 0;  ///< Delivered over links, simulated.
  uint64_t events = 0;   ///< Executed by the event core.
  uint64_t digest = 0;   ///< Of every delivery; equal for equal scenarios on every machine.
};

}  // namespace tributary::lab
