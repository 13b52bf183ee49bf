// SPDX-License-Identifier: Apache-2.0
/// @file
/// The application of one job in a campaign run: on each rank a process that joins, computes a
/// while, reduces, and takes what it is given to the oracle; and a launcher that starts all of them
/// again when one has failed.
///
/// Model:   A rank's process does its collectives in order, several on their way. When a process
///          ends with an error the launcher hears of it after a while (JobPlan::notice_after), ends
///          all the others and starts everybody from the first collective; a session needs all of
///          them anew anyway. Processes that have done all they have to stay and keep alive.
/// SwitchML: Nothing joins: a session is a run of the launcher's, which clears the switch before it
///          (FaultWorld::begin_session()) and waits until nothing of the run before is on its way.
///          A process that comes back alone waits for the next run.
/// Judged:  Every result (ReduceOracle). Every status: whether it may be, with these faults, and
///          whether it has a text. Every wait: a process that has heard of no progress for its
///          deadline has to be told.
/// Units:   Virtual time.
/// Threads: One.
/// Tests:   tests/lab/faults/fault_run_test.cc
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lab/faults/fault_world.h"
#include "lab/faults/journal.h"
#include "lab/faults/reduce_oracle.h"
#include "lab/faults/session_book.h"

namespace tributary::lab {

class JobDriver {
 public:
  JobDriver(const FaultPlan& plan, uint32_t job, FaultWorld& world, SessionBook& sessions,
            Journal& journal);
  ~JobDriver();

  /// Starts every rank's first process.
  void start();
  /// The rank's process is gone; another one comes after `absence`.
  void crash(uint32_t rank, Duration absence);
  /// Every process has done all but the last collectives, and all are in one session.
  [[nodiscard]] bool in_step() const;
  /// Lets every rank do `count` of the last collectives. @pre in_step()
  void release(uint32_t count);
  /// Every process has done all that was released.
  [[nodiscard]] bool all_done() const;
  /// Notes who has waited too long without being told.
  void check_waits();
  /// All processes say good-bye.
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
  void judge(Rank& rank, Running& running);
  /// What is wrong with a result of a session in which a rank has another tensor than the others.
  [[nodiscard]] std::string check_disagreed(const Rank& rank, const Running& running) const;
  void note_end(Rank& rank);
  [[nodiscard]] bool may_end_with(host::Status status) const;
  void submit_more(Rank& rank);
  void submit_next(Rank& rank);
  void restart_later(Duration after);
  void restart_all();
  [[nodiscard]] std::string label(const Rank& rank) const;
  [[nodiscard]] bool is_switchml() const { return plan_.protocol == wire::Protocol::kSwitchml; }

  const FaultPlan& plan_;
  const uint32_t job_;
  const JobPlan& what_;
  FaultWorld& world_;
  SessionBook& sessions_;
  Journal& journal_;
  ReduceOracle oracle_;
  Prng draws_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  uint32_t released_;  ///< Collectives that may be done.
  bool restart_planned_ = false;
  uint64_t restarts_ = 0;
  uint64_t degraded_blocks_ = 0;
  uint64_t spoiled_sums_ = 0;
  uint64_t overtaken_stalls_ = 0;
  uint64_t epoch_ = 0;  ///< Counts restarts; what was planned before one is void.
};

}  // namespace tributary::lab
