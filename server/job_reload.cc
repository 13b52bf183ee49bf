// SPDX-License-Identifier: Apache-2.0
#include "server/job_reload.h"

#include <algorithm>
#include <optional>

namespace tributary::server {
namespace {

using trio_ml::JobConfig;

constexpr const char* kOtherKeys =
    "only timeout_ms and silence of a running job can change; for other keys remove the job, and "
    "reload once more";

constexpr const char* kDrains = "the job drains; reload once more when its workers have left";

/// Compares all keys but those that a running job can change.
bool is_same_but_for_changes(const JobConfig& running, const JobConfig& other) {
  JobConfig changed = running;
  changed.timeout = other.timeout;
  changed.silence = other.silence;
  return changed == other;
}

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

void JobReload::reconcile(const JobConfig& wanted, Counts& counts) {
  const std::optional<RunningJob> running = control_.find_job(wanted.id);
  const auto own = std::ranges::find(jobs_, wanted.id, &JobConfig::id);
  // If a job of the file does not run, it has ended after forget_others().
  if (running ? running->draining : own != jobs_.end()) {
    counts.refused.push_back({wanted.id, kDrains});
    return;
  }
  if (own == jobs_.end()) {
    if (const JobResult added = control_.add_job(wanted); !added) {
      counts.refused.push_back({wanted.id, added.error().text});
      return;
    }
    jobs_.push_back(wanted);
    counts.added++;
    return;
  }
  if (running->config == wanted) {
    counts.unchanged++;
    return;
  }
  if (!is_same_but_for_changes(running->config, wanted)) {
    counts.refused.push_back({wanted.id, kOtherKeys});
    return;
  }
  JobChange change;
  if (running->config.timeout != wanted.timeout) change.timeout = wanted.timeout;
  if (running->config.silence != wanted.silence) change.silence = wanted.silence;
  if (const JobResult changed = control_.change_job(wanted.id, change); !changed) {
    counts.refused.push_back({wanted.id, changed.error().text});
    return;
  }
  *own = wanted;
  counts.changed++;
}

void JobReload::forget_others() {
  std::erase_if(jobs_, [this](const JobConfig& job) {
    const std::optional<RunningJob> running = control_.find_job(job.id);
    return !running || !is_same_but_for_changes(running->config, job);
  });
}

JobReload::Counts JobReload::apply(const std::vector<JobConfig>& wanted) {
  Counts counts;
  forget_others();
  drain_others(wanted, counts);
  for (const JobConfig& job : wanted) reconcile(job, counts);
  return counts;
}

}  // namespace tributary::server
