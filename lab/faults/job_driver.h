// SPDX-License-Identifier: Apache-2.0
/// @file
/// The application of one job in a campaign run. On each rank a process joins, computes, reduces,
/// and checks its results against the oracle. A launcher restarts all ranks after one fails.
///
/// Model:   A process runs its collectives in order, several in flight. When one fails, the
///          launcher notices after JobPlan::notice_after, ends the others and restarts all from the
///          first collective. Finished processes stay and keep alive. SwitchML has no joins: a
///          session is one run of the launcher, which clears the switch and waits until the
///          previous run's packets are gone.
/// Judged:  Every result (ReduceOracle); every status, for whether the faults justify it and for
///          its text; every wait: a process without progress for its deadline must get an error.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/faults/fault_world.h"
#include "lab/faults/journal.h"
#include "lab/faults/reduce_oracle.h"
#include "lab/faults/session_book.h"
#include "lab/faults/shard_judge.h"

namespace tributary::lab {

class JobDriver {
 public:
  JobDriver(const FaultPlan& plan, uint32_t job, FaultWorld& world, SessionBook& sessions,
            Journal& journal, ShardJudge* shards);
  ~JobDriver();

  /// Starts every rank's first process.
  void start();
  /// Ends the rank's process; a new one starts after `absence`.
  void crash(uint32_t rank, Duration absence);
  /// Returns whether every process has done all but the last collectives, all in one session.
  [[nodiscard]] bool in_step() const;
  /// Releases `count` of the last collectives to every rank. @pre in_step()
  void release(uint32_t count);
  /// Returns whether every process has done all released collectives.
  [[nodiscard]] bool all_done() const;
  /// Records processes that have waited too long without an error.
  void check_waits();
  /// Returns whether the job's list has this aggregator; true if it is not sharded.
  [[nodiscard]] bool uses(uint32_t aggregator) const;
  /// Makes all processes leave.
  void leave_all();

  [[nodiscard]] uint64_t restarts() const { return restarts_; }
  [[nodiscard]] uint64_t degraded_blocks() const { return degraded_blocks_; }
  [[nodiscard]] uint64_t spoiled_sums() const { return spoiled_sums_; }
  [[nodiscard]] uint64_t overtaken_stalls() const { return overtaken_stalls_; }

 private:
  struct Running;
  struct Rank;

  void begin_process(uint32_t rank);
  void on_round(Rank& rank);
  void note_session(Rank& rank);
  void note_results(Rank& rank);
  void check_result(Rank& rank, Running& running);
  /// Returns a degraded range of the last collective that is a breach, or null. A range of a
  /// sharded job is a breach only if its session has sent blocks to the range's aggregator since
  /// calm_at. Until then a rank may be a permanent straggler there.
  [[nodiscard]] const host::DegradedRange* degraded_without_fault(const Rank& rank,
                                                                  const Running& running) const;
  /// Checks the blocks that one session summed. @return The error; empty if there is none.
  [[nodiscard]] std::string check_blocks(const Rank& rank, const Running& running, uint64_t session,
                                         uint32_t block_first, uint32_t block_end);
  /// Checks the blocks of each aggregator of a sharded job.
  [[nodiscard]] std::string check_parts(const Rank& rank, const Running& running);
  /// Checks a result of a session in which one rank has a different tensor.
  /// @return The error; empty if there is none.
  [[nodiscard]] std::string check_disagreed(const Rank& rank, const Running& running) const;
  void note_end(Rank& rank);
  [[nodiscard]] bool may_end_with(host::Status status) const;
  void submit_more(Rank& rank);
  void submit_next(Rank& rank);
  void restart_later(Duration after);
  void restart_all();
  void choose_list();
  [[nodiscard]] std::string label(const Rank& rank) const;
  [[nodiscard]] bool is_switchml() const { return plan_.protocol == wire::Protocol::kSwitchml; }

  const FaultPlan& plan_;
  const uint32_t job_;
  const JobPlan& job_plan_;
  FaultWorld& world_;
  SessionBook& sessions_;
  Journal& journal_;
  ShardJudge* const shards_;  ///< Null unless the job is sharded.
  ReduceOracle oracle_;
  Prng draws_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  uint32_t released_;  ///< Collectives that ranks may run.
  bool restart_planned_ = false;
  uint64_t restarts_ = 0;
  uint64_t degraded_blocks_ = 0;
  uint64_t spoiled_sums_ = 0;
  uint64_t overtaken_stalls_ = 0;
  std::vector<host::Aggregator> list_;  ///< Sharded: of the processes of this epoch.
  std::optional<Endpoint> lost_;        ///< An aggregator that a rank has lost in this epoch.
  uint64_t epoch_ = 0;                  ///< Number of restarts; each voids earlier plans.
};

}  // namespace tributary::lab
