// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result of a run, as plain data.
///
/// Units:   Times as Duration. Counts are of real packets and blocks: with a train of k, each
///          simulated one counts k times, unless a field says "simulated".
/// Tests:   tests/lab/run_test.cc, tests/lab/sweep/run_output_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "host/all_reduce.h"

namespace tributary::lab {

// Durations as numbers, with the ticks below a nanosecond.
[[nodiscard]] constexpr double as_ns(Duration duration) {
  return static_cast<double>(duration.ticks()) / static_cast<double>(nanoseconds(1).ticks());
}
/// Returns the Duration whose as_ns() is `count`, to the nearest tick of 10 ps.
[[nodiscard]] inline Duration from_ns(double count) {
  return Duration::from_ticks(std::llround(count * static_cast<double>(nanoseconds(1).ticks())));
}
[[nodiscard]] constexpr double as_us(Duration duration) { return as_ns(duration) / 1e3; }
[[nodiscard]] constexpr double as_ms(Duration duration) { return as_ns(duration) / 1e6; }

/// Order statistics of many durations. The percentiles are at most 3.2 % above the true ones; mean,
/// minimum and maximum are exact.
struct DurationSummary {
  uint64_t count = 0;
  Duration mean;
  Duration min;
  Duration p50;
  Duration p90;
  Duration p99;
  Duration max;
};

/// A worker's time, traffic and contributions.
struct WorkerResult {
  Duration computed;                ///< With the input pipeline and the copies from and to the GPU.
  Duration waited;                  ///< For the network, after its computation had ended.
  Duration slept;                   ///< By the straggler pattern.
  Duration packet_cpu;              ///< CPU time for packets in and out, until finished_at.
  uint32_t iterations = 0;          ///< Completed.
  uint32_t iterations_skipped = 0;  ///< Completed without computation, to catch up.
  uint64_t contributions = 0;       ///< Blocks computed. Blocks that end before are not sent.
  uint64_t blocks_skipped = 0;      ///< Blocks received without a contribution, to catch up.
  uint64_t contributions_lost = 0;  ///< Blocks computed that completed without the worker.
  /// Blocks computed whose sums lack workers that the result does not name.
  uint64_t contributions_unclear = 0;
  uint64_t sums_missed = 0;   ///< Blocks whose sum has been discarded.
  host::Staleness staleness;  ///< From the back end "asynchronous" only.
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  /// On its host's cable, with every header and gap. Includes a server on the same host, and leaves
  /// out the bytes that the cable has lost before the receiver.
  uint64_t wire_bytes_sent = 0;
  uint64_t wire_bytes_received = 0;
  uint64_t retransmissions = 0;
  uint64_t probes = 0;
  uint64_t receive_overflows = 0;  ///< Packets lost in the full receive buffer.
  bool dropped_out = false;        ///< Desynchronised; the others continued.
  Duration finished_at;            ///< End of the last iteration.
};

/// One direction of a cable.
struct LinkResult {
  std::string name;
  uint64_t packets = 0;     ///< Put on the wire, or in the queue before it when the run ends.
  uint64_t bytes = 0;       ///< Bytes of these packets on the wire.
  uint64_t lost = 0;        ///< All causes together.
  uint64_t dropped = 0;     ///< Part of `lost`: by the full queue. They are not among `packets`.
  uint64_t duplicated = 0;  ///< Delivered twice; counted once in `packets`.
  uint64_t marked = 0;
  uint64_t queue_bytes_peak = 0;
  double utilisation = 0;  ///< Share of the rate, over the whole run.
};

/// The parts of an aggregator's result that comparisons read. A model may report others.
enum class PartKind : uint8_t {
  kSlots,   ///< Packets of a worker that the aggregator adds at the same time.
  kMemory,  ///< Memory of the job, in MB (10^6 bytes).
  kStages,
  kStatefulAlus,
  kSramBlocks,
  kPassesPerPacket,
  kRecirculated,
  kSweepingPackets,
  kSlotsGivenUp,
  kInstructionsPerPacket,
  kThreadsInUse,
  kRmwBanksInUse,
  kOther,  ///< Known by its name only.
};

/// By PartKind; the names in every output.
inline constexpr std::array<const char*, static_cast<size_t>(PartKind::kOther)> kPartNames{
    "slots",
    "memory of the job",
    "stages",
    "stateful ALUs",
    "SRAM blocks",
    "passes per packet",
    "recirculated",
    "sweeping packets",
    "slots given up",
    "instructions per packet",
    "threads in use, when active",
    "RMW banks in use, when active"};

/// @param kind Not kOther.
[[nodiscard]] constexpr const char* part_name(PartKind kind) {
  return kPartNames[static_cast<size_t>(kind)];
}

/// One aggregator: its traffic, its latency, and the parts that its model reports.
struct AggregatorResult {
  struct Part {
    std::string name;
    double value;
    std::string unit;
    PartKind kind = PartKind::kOther;
  };
  std::string name;
  uint64_t packets = 0;
  uint64_t dropped = 0;
  DurationSummary latency;  ///< Latency of contributions inside the aggregator.
  std::vector<Part> parts;  ///< Occupancies, instructions per packet, …
  std::string bottleneck;

  void add(PartKind kind, double value, std::string unit) {
    parts.push_back({part_name(kind), value, std::move(unit), kind});
  }
  /// Adds a part of kind kOther.
  void add(std::string part, double value, std::string unit) {
    parts.push_back({std::move(part), value, std::move(unit)});
  }
};

/// Bins of a timeline. Packets after the last bin are counted together.
inline constexpr size_t kTimelineBinsMax = 100'000;

struct RunResult {
  // Headline.
  Duration mean_iteration;           ///< End of the median worker's last iteration / iterations.
  Duration total;                    ///< Until the last worker has finished, but for dropouts.
  std::vector<Duration> iterations;  ///< From one end of the median worker to the next.
  Duration typical_iteration;        ///< Unit of the straggler pattern; zero without one.
  std::string bottleneck;            ///< The limiting resource, in one line.

  std::vector<WorkerResult> workers;
  /// Returns the number of workers that have dropped out. Times and shares are those of the others.
  [[nodiscard]] uint32_t dropouts() const {
    return static_cast<uint32_t>(std::ranges::count_if(workers, &WorkerResult::dropped_out));
  }
  uint64_t blocks = 0;           ///< Results received, over all workers but dropouts.
  uint64_t degraded_blocks = 0;  ///< Results received that lack a source.
  uint64_t skipped_blocks = 0;   ///< Results received of blocks that some worker skipped.
  [[nodiscard]] double degraded_fraction() const { return of_blocks(degraded_blocks); }
  [[nodiscard]] double skipped_fraction() const { return of_blocks(skipped_blocks); }
  /// Returns the share of the sums that never reached a worker, of these and the results received.
  [[nodiscard]] double missed_fraction() const {
    uint64_t missed = 0;
    for (const WorkerResult& worker : workers)
      missed += worker.dropped_out ? 0 : worker.sums_missed;
    return missed == 0 ? 0 : static_cast<double>(missed) / static_cast<double>(missed + blocks);
  }
  [[nodiscard]] double of_blocks(uint64_t count) const {
    return blocks == 0 ? 0 : static_cast<double>(count) / static_cast<double>(blocks);
  }
  /// Over all workers; see host/all_reduce.h.
  [[nodiscard]] host::Staleness staleness() const {
    host::Staleness all;
    for (const WorkerResult& worker : workers) all += worker.staleness;
    return all;
  }
  /// Per result received.
  [[nodiscard]] double staleness_mean() const { return of_blocks(staleness().pushes_sum); }
  DurationSummary block_latency;  ///< From sending a contribution to its result, at the workers.
  uint64_t wrong_sums = 0;        ///< Elements that differ from their source set's sum.
  uint64_t checked_sums = 0;      ///< Elements compared.

  std::vector<LinkResult> links;
  /// Packets in each bin of the scenario's timeline, from the start of training; empty without one.
  std::vector<uint64_t> timeline;
  uint64_t timeline_later = 0;  ///< Packets after kTimelineBinsMax bins.
  std::vector<AggregatorResult> aggregators;

  /// Workers that dropped out, and places where trains or the fidelity of a model may have changed
  /// the result; a line each.
  std::vector<std::string> warnings;

  uint64_t packets = 0;  ///< Simulated packets delivered over links.
  uint64_t events = 0;   ///< Executed by the event core.
  uint64_t digest = 0;   ///< Covers every delivery; equal for equal scenarios on any machine.
};

}  // namespace tributary::lab
