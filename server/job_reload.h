// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reconciles the jobs of a running server with those of a file that has changed.
///
/// Model:   Drains jobs that are gone from the file, adds new ones, and sets a timeout or an effect
///          of silence that differs from the running job's. A job that differs in another key stays
///          as it is, and the log names it. Jobs that an operator has added by command do not
///          belong to the file and stay. A reload adds a job that the file lists and an operator
///          removed. If that job still drains, the reload refuses it, and a reload after the drain
///          adds it.
/// Threads: One at a time.
/// Errors:  A refused command is in the log and is tried again by the next reload.
/// Tests:   tests/server/job_reload_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/trio_ml/config.h"
#include "server/job_control.h"

namespace tributary::server {

class JobReload {
 public:
  /// A job that goes on as it was, or does not run.
  struct Refused {
    uint32_t job;
    std::string error;  ///< One line.
  };
  /// The number of jobs of each kind.
  struct Counts {
    uint32_t added = 0;
    uint32_t drained = 0;
    uint32_t changed = 0;  ///< Got another timeout or effect of silence.
    uint32_t unchanged = 0;
    std::vector<Refused> refused;
  };

  /// @param jobs    The jobs with which the server has started.
  /// @param control Must outlive this object.
  JobReload(std::vector<trio_ml::JobConfig> jobs, JobControl& control)
      : jobs_(std::move(jobs)), control_(control) {}

  /// @param wanted The jobs of the file as it is now.
  Counts apply(const std::vector<trio_ml::JobConfig>& wanted);

 private:
  /// Forgets the jobs that have ended, or that an operator has replaced.
  void forget_others();
  /// Drains the jobs that are not wanted. Those refused stay in jobs_.
  void drain_others(const std::vector<trio_ml::JobConfig>& wanted, Counts& counts);
  /// Adds the job, or changes the running one to its keys.
  void reconcile(const trio_ml::JobConfig& wanted, Counts& counts);

  std::vector<trio_ml::JobConfig> jobs_;  ///< Jobs of the configuration file.
  JobControl& control_;
};

}  // namespace tributary::server
