// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a modelled PFE has done, as plain data: instructions, occupancy over time, latency with its
/// parts, and which resource was the limit.
///
/// Units:   Times as Duration; shares from 0 to 1. With trains of k each packet counts k times.
/// Tests:   tests/engine/model/meter_test.cc, pfe_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/model/latency_parts.h"

namespace tributary::engine {

/// Order statistics of many latencies. Percentiles are upper ends of histogram buckets, at most 3 %
/// above the true value; the mean and the largest are exact.
struct LatencySummary {
  uint64_t count = 0;
  Duration mean;
  Duration p50;
  Duration p90;
  Duration p99;
  Duration p999;
  Duration max;
  LatencyParts parts_mean;  ///< Add up to `mean`, rounding aside.

  struct Bucket {
    Duration up_to;  ///< Latencies in (previous bucket's, this].
    uint64_t count;
  };
  std::vector<Bucket> buckets;  ///< Those that are not empty.
};

/// How much of a resource was in use.
struct ResourceUse {
  std::string name;            ///< "threads", "PPEs", "RMW banks", "crossbar".
  std::string unit;            ///< What is counted, for people.
  double share = 0;            ///< Of its capacity, while any thread was at work.
  double share_peak = 0;       ///< Of its capacity, in the fullest bin.
  std::vector<double> bins{};  ///< Of its capacity, over time; Report::bin_width each.
};

struct InstructionCount {
  std::string name;
  uint64_t executed;
};

struct Report {
  // Packets.
  uint64_t arrived = 0;
  uint64_t refused_full = 0;      ///< Dropped: the packet buffer was full.
  uint64_t refused_too_long = 0;  ///< Dropped: longer than packet_bytes_max, on arrival or leaving.
  uint64_t forwarded = 0;
  uint64_t dropped = 0;         ///< By the program.
  uint64_t consumed = 0;        ///< Their thread ended without forwarding or dropping them.
  uint64_t sent = 0;            ///< Packets that the program made; one for all its destinations.
  uint64_t held_for_order = 0;  ///< By the reorder engine.
  uint64_t packet_buffer_peak = 0;  ///< Packets inside at once; simulated ones.

  // Threads and instructions.
  uint64_t packet_threads = 0;
  uint64_t timer_threads = 0;
  uint64_t threads_peak = 0;
  uint64_t instructions = 0;  ///< Of packet threads.
  double instructions_per_packet = 0;
  /// Of the loop that adds a payload, for each gradient. The paper's is 1.2 (Trio paper §6.3).
  double instructions_per_gradient = 0;
  uint64_t gradients = 0;  ///< 32-bit adds.
  /// Different instructions seen, loop bodies included. The paper's program has about 60 (§6.3).
  uint32_t program_instructions = 0;
  std::vector<InstructionCount>
      instruction_counts;  ///< Marks of the program, in order of first use.

  // Memory.
  uint64_t memory_requests = 0;
  uint64_t cache_hits = 0;
  uint64_t cache_misses = 0;
  Duration bank_queued;           ///< Requests behind others, summed.
  Duration crossbar_held;         ///< Of that, in the crossbar (backpressure).
  double bank_share_fullest = 0;  ///< The busiest bank's, while any thread was at work.

  // Time.
  Duration observed;  ///< Since the start, or reset_report().
  Duration active;    ///< Of that, with a thread at work.
  Duration bin_width;
  std::vector<ResourceUse> resources;
  LatencySummary latency;  ///< Of all packets.
  LatencySummary adding;   ///< Of packets whose payload was added: the paper's Figure 15.
};

/// One line: the resource that was the limit and its share; where none was, what a packet's time
/// went to.
[[nodiscard]] std::string bottleneck(const Report& report);

}  // namespace tributary::engine
