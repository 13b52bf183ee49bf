// SPDX-License-Identifier: Apache-2.0
#include "server/log/logged_jobs.h"

#include <utility>

namespace tributary::server {

JobResult LoggedJobs::logged(const char* event, LogFields fields, JobResult result) {
  if (result) {
    log_.write_always(LogLevel::kInfo, event, fields);
  } else {
    fields["command"] = event;
    fields["error"] = result.error().text;
    log_.write(LogLevel::kWarn, "command_refused", fields);
  }
  return result;
}

JobResult LoggedJobs::add_job(const trio_ml::JobConfig& job) {
  return logged("job_added", {{"job", job.id}, {"sources", job.sources}}, jobs_.add_job(job));
}

JobResult LoggedJobs::remove_job(uint32_t id, bool force) {
  return logged("job_removed", {{"job", id}, {"force", force}}, jobs_.remove_job(id, force));
}

JobResult LoggedJobs::drain_job(uint32_t id) {
  return logged("job_draining", {{"job", id}}, jobs_.drain_job(id));
}

JobResult LoggedJobs::change_job(uint32_t id, const JobChange& change) {
  const JobResult result = jobs_.change_job(id, change);
  if (!result) return logged("job_change", {{"job", id}}, result);
  if (change.timeout) {
    const int64_t timeout_ms = in_milliseconds(*change.timeout);
    log_.write_always(LogLevel::kInfo, "job_timeout_changed",
                      {{"job", id}, {"timeout_ms", timeout_ms}});
  }
  if (change.silence) {
    const auto silence = trio_ml::to_string(*change.silence);
    log_.write_always(LogLevel::kInfo, "job_silence_changed", {{"job", id}, {"silence", silence}});
  }
  return result;
}

JobResult LoggedJobs::evict_source(uint32_t id, uint32_t source) {
  return logged("source_evicted", {{"job", id}, {"source", source}},
                jobs_.evict_source(id, source));
}

}  // namespace tributary::server
