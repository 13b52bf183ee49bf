// SPDX-License-Identifier: Apache-2.0
#include "server/job_reload.h"

#include <algorithm>

namespace tributary::server {
namespace {

using trio_ml::JobConfig;

bool has_job(const std::vector<JobConfig>& jobs, uint8_t id) {
  return std::ranges::any_of(jobs, [id](const JobConfig& job) { return job.id == id; });
}

}  // namespace

void JobReload::drain_others(const std::vector<JobConfig>& wanted, Counts& counts) {
  std::erase_if(jobs_, [&](const JobConfig& job) {
    if (has_job(wanted, job.id)) return false;
    const JobResult drained = control_.drain_job(job.id);
    // An operator may have removed it before.
    if (!drained && drained.error().fault != JobFault::kUnknownJob) {
      counts.refused.push_back(job.id);
      return false;
    }
    counts.drained++;
    return true;
  });
}

void JobReload::bring(const JobConfig& wanted, Counts& counts) {
  const auto running = std::ranges::find(jobs_, wanted.id, &JobConfig::id);
  if (running == jobs_.end()) {
    if (!control_.add_job(wanted)) return counts.refused.push_back(wanted.id);
    jobs_.push_back(wanted);
    counts.added++;
    return;
  }
  if (*running == wanted) {
    counts.unchanged++;
    return;
  }
  JobConfig with_timeout = *running;
  with_timeout.timeout = wanted.timeout;
  if (with_timeout != wanted || !control_.set_timeout(wanted.id, wanted.timeout)) {
    return counts.refused.push_back(wanted.id);
  }
  running->timeout = wanted.timeout;
  counts.changed++;
}

JobReload::Counts JobReload::apply(const std::vector<JobConfig>& wanted) {
  Counts counts;
  drain_others(wanted, counts);
  for (const JobConfig& job : wanted) bring(job, counts);
  return counts;
}

}  // namespace tributary::server
