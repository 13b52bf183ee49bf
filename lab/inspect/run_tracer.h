// SPDX-License-Identifier: Apache-2.0
/// @file
/// Looks into a run: gives its aggregators and links a trace, and takes snapshots at given times.
///
/// Model:   A snapshot at a time shows what is left when every event up to and including it has
///          been executed. With snapshots only, the run ends after the last one.
/// Threads: The run's.
/// Errors:  begin() refuses a node that there is not, with those that there are; and a run in which
///          nothing could be traced.
/// Memory:  Snapshots: one for each time and node. Events: the sink's business.
/// Tests:   tests/lab/inspect/run_observer_test.cc
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "lab/inspect/inspected_node.h"
#include "lab/run_observer.h"

namespace tributary::lab {

struct RunTracerConfig {
  std::string node = {};          ///< Aggregator, or link; empty: all.
  bool links = false;             ///< What links carry, too.
  Instant to = Instant::never();  ///< Later events are of no interest: the run ends.
  std::vector<Instant> at = {};   ///< Snapshots, rising.
  SnapshotWish wish = {};         ///< What they show.
};

class RunTracer final : public RunObserver {
 public:
  /// @param sink Gets the events; null: snapshots only. It must outlive the run.
  RunTracer(RunTracerConfig config, TraceSink* sink) : config_(std::move(config)), sink_(sink) {}

  Result<void> begin(const RunInside& inside) override;
  bool before_event(Instant next) override;
  void end() override;

  struct Taken {
    Instant at;
    NodeSnapshot snapshot;
  };
  [[nodiscard]] const std::vector<Taken>& snapshots() const { return snapshots_; }
  /// Times for snapshots that the run did not reach.
  [[nodiscard]] std::vector<Instant> missed() const;
  /// The run did not go on to its end because there was nothing more to see.
  [[nodiscard]] bool had_enough() const { return had_enough_; }
  /// When the run ended.
  [[nodiscard]] Instant ended_at() const { return ended_at_; }

 private:
  void take_snapshots(Instant at);

  const RunTracerConfig config_;
  TraceSink* const sink_;
  const EventCore* core_ = nullptr;
  std::vector<InspectedNode*> nodes_;  ///< Those of interest.
  std::vector<Tracer> link_tracers_;   ///< Shape [links].
  std::vector<Taken> snapshots_;
  size_t taken_ = 0;  ///< Of config_.at.
  bool had_enough_ = false;
  Instant ended_at_;
};

/// Lets every link of a run tell `tracers` (shape [links], filled here; it must outlive the run)
/// what it carries. @param only The name of a link, or empty for all.
void trace_links(const RunInside& inside, const std::string& only, TraceSink& sink,
                 std::vector<Tracer>& tracers);

/// The node or link of that name. Refuses what there is not, with what there is.
[[nodiscard]] Result<void> check_trace_node(const RunInside& inside, const std::string& name);

}  // namespace tributary::lab
