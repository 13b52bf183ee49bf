// SPDX-License-Identifier: Apache-2.0
#include "server/job_reload.h"

#include <algorithm>

namespace tributary::server {
namespace {

using trio_ml::JobConfig;

constexpr const char* kOtherKeys =
    "only timeout_ms and silence of a running job can change; for other keys remove the job, and "
    "reload once more";

bool has_job(const std::vector<JobConfig>& jobs, uint8_t id) {
  return std::ranges::any_of(jobs, [id](const JobConfig& job) { return job.id == id; });
}

}  // namespace

void JobReload::drain_others(const std::vector<JobConfig>& wanted, Counts& counts) {
  std::erase_if(jobs_, [&](const JobConfig& job) {
    if (has_job(wanted, job.id)) return false;
    if (const JobResult drained = control_.drain_job(job.id); !drained) {
      counts.refused.push_back({job.id, drained.error().text});
      return false;
    }
    counts.drained++;
    return true;
  });
}

void JobReload::bring(const JobConfig& wanted, Counts& counts) {
  const auto running = std::ranges::find(jobs_, wanted.id, &JobConfig::id);
  if (running == jobs_.end()) {
    if (const JobResult added = control_.add_job(wanted); !added) {
      counts.refused.push_back({wanted.id, added.error().text});
      return;
    }
    jobs_.push_back(wanted);
    counts.added++;
    return;
  }
  if (*running == wanted) {
    counts.unchanged++;
    return;
  }
  JobConfig changed = *running;
  changed.timeout = wanted.timeout;
  changed.silence = wanted.silence;
  if (changed != wanted) {
    counts.refused.push_back({wanted.id, kOtherKeys});
    return;
  }
  JobResult set;
  if (running->timeout != wanted.timeout) set = control_.set_timeout(wanted.id, wanted.timeout);
  if (set) running->timeout = wanted.timeout;
  if (set && running->silence != wanted.silence) {
    set = control_.set_silence(wanted.id, wanted.silence);
  }
  if (!set) {
    counts.refused.push_back({wanted.id, set.error().text});
    return;
  }
  running->silence = wanted.silence;
  counts.changed++;
}

JobReload::Counts JobReload::apply(const std::vector<JobConfig>& wanted) {
  Counts counts;
  std::erase_if(jobs_, [this](const JobConfig& job) { return !control_.has_job(job.id); });
  drain_others(wanted, counts);
  for (const JobConfig& job : wanted) bring(job, counts);
  return counts;
}

}  // namespace tributary::server
