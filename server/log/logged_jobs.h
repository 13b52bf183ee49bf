// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes a line of the log for each command of an operator. The log's limit suppresses repeated
/// refusals only.
///
/// Threads: As JobControl.
/// Tests:   tests/server/log/logged_jobs_test.cc
#pragma once

#include <optional>

#include "server/job_control.h"
#include "server/log/log.h"

namespace tributary::server {

class LoggedJobs final : public JobControl {
 public:
  /// @param jobs Carries the commands out; must outlive this object, like `log`.
  LoggedJobs(JobControl& jobs, Log& log) : jobs_(jobs), log_(log) {}

  [[nodiscard]] std::optional<RunningJob> find_job(uint32_t id) const override {
    return jobs_.find_job(id);
  }
  JobResult add_job(const trio_ml::JobConfig& job) override;
  JobResult remove_job(uint32_t id, bool force) override;
  JobResult drain_job(uint32_t id) override;
  JobResult change_job(uint32_t id, const JobChange& change) override;
  JobResult evict_source(uint32_t id, uint32_t source) override;

 private:
  /// Writes `event` if the command was carried out, else "command_refused". Returns the result.
  JobResult logged(const char* event, LogFields fields, JobResult result);

  JobControl& jobs_;
  Log& log_;
};

}  // namespace tributary::server
