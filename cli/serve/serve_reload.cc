// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_reload.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/job_keys.h"

namespace tributary::cli {
namespace {

using server::LogLevel;

/// Returns the jobs of the file as it is now.
Result<std::vector<trio_ml::JobConfig>> jobs_of_file(const Settings& settings) {
  const auto rows = settings.read_again(server::job_keys());
  if (!rows) return tl::unexpected(rows.error());
  std::vector<trio_ml::JobConfig> jobs;
  for (const KeyValues& row : *rows) {
    auto job = server::to_job(row);
    if (!job) return tl::unexpected(job.error());
    if (std::ranges::find(jobs, job->id, &trio_ml::JobConfig::id) != jobs.end()) {
      return failure(fmt::format("[[job]]: id={} is configured twice", job->id));
    }
    jobs.push_back(*std::move(job));
  }
  return jobs;
}

}  // namespace

void reload_jobs(const Settings& settings, server::JobReload& jobs, server::Log& log) {
  const auto wanted = jobs_of_file(settings);
  if (!wanted) {
    log.write_always(LogLevel::kError, "reload_failed", {{"error", wanted.error().text}});
    return;
  }
  const auto counts = jobs.apply(*wanted);
  log.write_always(LogLevel::kInfo, "jobs_reloaded",
                   {{"added", counts.added},
                    {"drained", counts.drained},
                    {"changed", counts.changed},
                    {"unchanged", counts.unchanged}});
  for (const auto& [job, error] : counts.refused) {
    log.write_always(LogLevel::kWarn, "job_not_reloaded", {{"job", job}, {"error", error}});
  }
  const auto changed = settings.is_file_changed(server::job_keys().name());
  if (changed && *changed) {
    log.write_always(
        LogLevel::kWarn, "settings_not_reloaded",
        {{"advice", "keys outside [[job]] have changed; restart the server to apply them"}});
  }
}

}  // namespace tributary::cli
