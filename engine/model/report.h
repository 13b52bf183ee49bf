// SPDX-License-Identifier: Apache-2.0
/// @file
/// The results of a modelled PFE as plain data: instructions, occupancy over time, latency with its
/// parts, and the limiting resource.
///
/// Units:   Times as Duration; shares from 0 to 1. A packet of train k counts k times.
/// Tests:   tests/engine/model/meter_test.cc, tests/engine/model/pfe_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/model/latency_parts.h"

namespace tributary::engine {

/// Order statistics of many latencies. A percentile is the upper end of a histogram bucket, at most
/// 3 % above the true value. The mean, the smallest and the largest are exact.
struct LatencySummary {
  uint64_t count = 0;
  Duration mean;
  Duration min;
  Duration p50;
  Duration p90;
  Duration p99;
  Duration p999;
  Duration max;
  LatencyParts parts_mean;  ///< They add up to `mean`, apart from rounding.

  struct Bucket {
    Duration up_to;  ///< Latencies in (previous bucket's up_to, this up_to].
    uint64_t count;
  };
  std::vector<Bucket> buckets;  ///< Non-empty buckets only.
};

/// The use of one resource.
struct ResourceUse {
  /// "threads", "PPEs", "RMW banks", "crossbar", and where limited "ports in", "fabric", "ports
  /// out".
  std::string name;
  std::string unit;          ///< The counted unit, for people.
  double share = 0;          ///< Share of capacity used while any thread was at work.
  double packet_work_s = 0;  ///< Seconds for which the packets would use all of the capacity.
  /// Share of capacity used by timer threads, over the whole observation, without those of stop().
  double timer_share = 0;
  double share_peak = 0;       ///< `share` in the fullest bin; at least `share`.
  std::vector<double> bins{};  ///< Share of capacity used in each Report::bin_width.
};

struct InstructionCount {
  std::string name;
  uint64_t executed;
};

/// The requests of one kind, by its name in traces.
struct XtxnCount {
  std::string kind;
  uint64_t issued;
};

struct Report {
  // Packets.
  uint64_t arrived = 0;
  uint64_t refused_full = 0;      ///< Dropped: the packet buffer was full.
  uint64_t refused_too_long = 0;  ///< Dropped on arrival or sending: above packet_bytes_max.
  uint64_t forwarded = 0;
  uint64_t dropped = 0;             ///< By the program.
  uint64_t consumed = 0;            ///< Their thread neither forwarded nor dropped them.
  uint64_t sent = 0;                ///< Made by the program; one for all its destinations.
  uint64_t held_for_order = 0;      ///< By the reorder engine.
  uint64_t packet_buffer_peak = 0;  ///< Most packets inside at once.

  // Threads and instructions.
  uint64_t packet_threads = 0;
  uint64_t timer_threads = 0;
  uint64_t egress_threads = 0;  ///< Passes of leaving packets, one for each destination.
  uint64_t threads_peak = 0;
  uint64_t instructions = 0;  ///< Executed by packet threads.
  double instructions_per_packet = 0;
  /// Instructions of the loop that adds a payload. The paper's value is 1.2 (Trio paper §6.3).
  double instructions_per_gradient = 0;
  uint64_t gradients = 0;  ///< 32-bit adds.
  /// Distinct instructions seen, including loop bodies. The paper's program has about 60 (§6.3).
  uint32_t program_instructions = 0;
  std::vector<InstructionCount>
      instruction_counts;  ///< By the program's marks, in order of first use.

  // Memory.
  std::vector<XtxnCount> xtxn_counts;  ///< Kinds that were issued, in the order of XtxnKind.
  uint64_t memory_requests = 0;
  uint64_t cache_hits = 0;
  uint64_t cache_misses = 0;
  Duration bank_queued;    ///< Waits behind other requests, summed.
  Duration crossbar_held;  ///< Part of bank_queued spent in the crossbar (backpressure).
  /// Reservations of banks and issue slots beyond SlotLedger::kReach. Part of their work takes no
  /// time, so the times of a run that has any are too short.
  uint64_t reservations_overflowed = 0;
  double bank_share_fullest = 0;  ///< Share of the busiest bank, while any thread was at work.
  /// ResourceUse's numbers for the bank that limits the rate of packets.
  double bank_packet_work_s = 0;
  double bank_timer_share = 0;

  // Time.
  Duration observed;  ///< Since the start or reset_report().
  Duration active;    ///< Part of `observed` with a thread at work.
  Duration bin_width;
  std::vector<ResourceUse> resources;
  LatencySummary latency;  ///< All packets.
  LatencySummary adding;   ///< Packets whose payload was added: the paper's Figure 15.
  // The egress side, where it is modelled. `latency` ends before it.
  uint64_t left = 0;         ///< Packets that have left a port, one for each destination.
  Duration egress_time;      ///< From the reorder engine to the last bit at the port, summed.
  Duration egress_time_max;  ///< Longest egress time of one packet.
};

/// Returns one line: the limiting resource and its share, or, if there was none, the largest part
/// of a packet's time.
[[nodiscard]] std::string bottleneck(const Report& report);

}  // namespace tributary::engine
