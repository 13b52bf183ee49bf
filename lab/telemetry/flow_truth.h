// SPDX-License-Identifier: Apache-2.0
/// @file
/// The truth about a generated trace: the packets of each flow, the large flows, and when each of
/// them reaches the threshold.
///
/// Model:   The threshold is the count of the k-th largest flow. Flows with at least that many
///          packets are large, so ties may make them more than k.
/// Threads: Never changes after construction.
/// Memory:  One entry for each flow of the trace.
/// Tests:   tests/lab/telemetry/flow_truth_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "apps/flow_key.h"
#include "base/result.h"
#include "base/time.h"
#include "traffic/config.h"

namespace tributary::lab {

using apps::FlowKey;

/// For hash tables of one run; no output depends on their order.
struct FlowHash {
  size_t operator()(const FlowKey& key) const { return apps::FlowKeyHash{}(key, /*seed=*/0); }
};

/// Reads the flow of a generated frame. @return nothing for a frame that is in no flow.
[[nodiscard]] std::optional<FlowKey> flow_of(std::span<const std::byte> frame);

class FlowTruth {
 public:
  struct LargeFlow {
    uint64_t packets = 0;
    Instant reached_at;  ///< Time of the packet that makes the flow large.
  };

  /// Generates the trace twice: to count, then to find the times.
  /// @param top k, at least 1. A trace with fewer flows has only large ones.
  [[nodiscard]] static Result<FlowTruth> create(const traffic::Config& trace, uint32_t top);

  [[nodiscard]] uint64_t packets() const { return packets_; }
  [[nodiscard]] uint64_t flow_count() const { return flow_count_; }
  [[nodiscard]] uint64_t threshold() const { return threshold_; }
  [[nodiscard]] const std::unordered_map<FlowKey, LargeFlow, FlowHash>& large() const {
    return large_;
  }

 private:
  uint64_t packets_ = 0;
  uint64_t flow_count_ = 0;
  uint64_t threshold_ = 0;
  std::unordered_map<FlowKey, LargeFlow, FlowHash> large_;
};

}  // namespace tributary::lab
