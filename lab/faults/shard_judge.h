// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the errors that the ranks of a sharded job get when an aggregator dies
/// (docs/many-aggregators.md).
///
/// Units:   Virtual time.
/// Errors:  Breaches in the journal.
/// Tests:   tests/lab/faults/sharded_faults_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/faults/fault_world.h"
#include "lab/faults/journal.h"

namespace tributary::lab {

/// Checks these promises:
/// - Named: if only lost aggregators can end a process, the process names one of them and its place
///   in the list.
/// - Passed on: if every rank that left had lost an aggregator, the other ranks learn its name.
/// - In time: a rank that waits for an aggregator whose machine refuses packets ends within a
///   second. If the aggregator is only silent, the rank ends soon after the limit of
///   host/silence_watch.h.
/// - Left: over clean links, no session remains after all ranks have left.
class ShardJudge {
 public:
  ShardJudge(const FaultPlan& plan, FaultWorld& world, Journal& journal);

  /// Call it when an aggregator has been stopped. @param refuses See Incident.
  void on_crash(uint32_t aggregator, bool refuses);
  /// Call it when an aggregator neither sends nor receives for a while, because it is paused, cut
  /// off from all ranks, or has died with its machine.
  void on_silence(uint32_t aggregator, Duration length);
  /// Call it when a process has ended by itself. @param label Names the process.
  void on_end(uint32_t job, uint32_t rank, const std::string& label);
  /// Call it when the launcher restarts a job.
  void on_restart(uint32_t job) { unnamed_ends_[job] = named_ends_[job] = 0; }
  /// Call it when all ranks have left, and their packets have arrived.
  void check_left();

 private:
  /// A rank that waits for an aggregator.
  struct Waiting {
    uint32_t job;
    uint32_t rank;
    uint64_t session;
  };

  [[nodiscard]] std::vector<Waiting> waiting_for(uint32_t aggregator);
  void check_told(uint32_t aggregator, const std::vector<Waiting>& waiting, Duration within);
  [[nodiscard]] bool names_lost_aggregator(const ShardedRank& rank) const;

  const FaultPlan& plan_;
  FaultWorld& world_;
  Journal& journal_;
  bool only_losses_ = false;  ///< Nothing but a lost aggregator may end a process.
  bool is_prompt_ = false;    ///< No other fault of the plan delays the end.
  bool is_single_ = false;    ///< The plan has one crash, cut or pause of an aggregator, and no
                              ///< other fault that delays the end.
  std::vector<uint32_t> crashes_;  ///< Shape [aggregators].
  std::vector<bool> silent_;  ///< Shape [aggregators]: for longer than the limit, at some time.
  std::vector<uint32_t> unnamed_ends_;  ///< Shape [jobs]: failures that named no lost aggregator.
  std::vector<uint32_t> named_ends_;    ///< Shape [jobs]: failures that named one.
};

}  // namespace tributary::lab
