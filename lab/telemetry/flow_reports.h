// SPDX-License-Identifier: Apache-2.0
/// @file
/// The knowledge of a controller that receives the reports of a machine, and its score against the
/// truth.
///
/// Model:   The controller remembers the largest count that it has seen of each flow. It finds a
///          flow large at the first report of at least the threshold.
/// Threads: One.
/// Tests:   tests/lab/telemetry/flow_reports_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "lab/telemetry/flow_truth.h"

namespace tributary::lab {

/// The accuracy with which a controller found the large flows.
struct FlowScore {
  double recall = 0;  ///< Share of the large flows that it found.
  uint64_t false_positives = 0;
  /// Mean relative error of the large flows' counts at the end; 1 for a flow that it never saw.
  double count_error = 0;
  /// Mean time from the packet that makes a flow large to the report that shows it; 0 for a report
  /// that comes before that packet. None if it found no large flow.
  std::optional<double> detect_ms = {};
};

class FlowReports {
 public:
  /// @param truth Must outlive the object.
  explicit FlowReports(const FlowTruth& truth) : truth_(truth) {}

  /// Takes the count of a flow so far.
  void report(Instant at, const FlowKey& key, uint64_t packets);
  /// Adds to the count of a flow, then takes it.
  void add(Instant at, const FlowKey& key, uint64_t packets) {
    report(at, key, known_[key].packets + packets);
  }

  [[nodiscard]] FlowScore score() const;

 private:
  struct Known {
    uint64_t packets = 0;
    std::optional<Instant> found_at;
  };
  const FlowTruth& truth_;
  std::unordered_map<FlowKey, Known, FlowHash> known_;
};

}  // namespace tributary::lab
