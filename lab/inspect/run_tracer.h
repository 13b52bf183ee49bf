// SPDX-License-Identifier: Apache-2.0
/// @file
/// Traces a run's aggregators and links, and takes snapshots at given times.
///
/// Model:   A snapshot at a time shows the state after every event up to and including that time.
///          With snapshots only, the run ends after the last one.
/// Threads: The run's.
/// Errors:  begin() refuses an unknown node, with the names of all nodes, and a run in which
///          nothing can be traced.
/// Memory:  One snapshot for each time and node. The sink keeps the events.
/// Tests:   tests/lab/run_observer_test.cc
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "lab/inspect/inspected_node.h"
#include "lab/run_observer.h"

namespace tributary::lab {

struct RunTracerConfig {
  std::string node = {};          ///< An aggregator or a link; empty: all.
  bool links = false;             ///< Also trace the packets on links.
  Instant to = Instant::never();  ///< The run ends before a later event.
  std::vector<Instant> at = {};   ///< Times of snapshots, rising.
  SnapshotRequest request = {};   ///< The contents of snapshots.
};

class RunTracer final : public RunObserver {
 public:
  /// @param sink Receives the events; null: snapshots only. It must outlive the run.
  RunTracer(RunTracerConfig config, TraceSink* sink) : config_(std::move(config)), sink_(sink) {}

  Result<void> begin(const RunInside& inside) override;
  bool before_event(Instant next) override;
  void end() override;

  struct Taken {
    Instant at;
    NodeSnapshot snapshot;
  };
  [[nodiscard]] const std::vector<Taken>& snapshots() const { return snapshots_; }
  /// Returns the snapshot times that the run did not reach.
  [[nodiscard]] std::vector<Instant> missed() const;
  /// Returns whether the tracer ended the run, because no later event was wanted.
  [[nodiscard]] bool had_enough() const { return had_enough_; }
  /// Returns the time at which the run ended.
  [[nodiscard]] Instant ended_at() const { return ended_at_; }

 private:
  void take_snapshots(Instant at);

  const RunTracerConfig config_;
  TraceSink* const sink_;
  const EventCore* core_ = nullptr;
  std::vector<InspectedNode*> nodes_;  ///< The traced ones.
  std::vector<Tracer> link_tracers_;   ///< Shape [links].
  std::vector<Taken> snapshots_;
  size_t taken_ = 0;  ///< Snapshot times done, of config_.at.
  bool had_enough_ = false;
  Instant ended_at_;
};

/// Traces the packets on a run's links. @param only The name of a link, or empty for all.
/// @param tracers Filled here, shape [links]. It must outlive the run.
void trace_links(const RunInside& inside, const std::string& only, TraceSink& sink,
                 std::vector<Tracer>& tracers);

/// Refuses a name that is neither a node's nor a link's, with all names.
[[nodiscard]] Result<void> check_trace_node(const RunInside& inside, const std::string& name);

}  // namespace tributary::lab
