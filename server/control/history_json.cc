// SPDX-License-Identifier: Apache-2.0
#include "server/control/history_json.h"

#include <algorithm>
#include <numeric>

namespace tributary::control {
namespace {

nlohmann::json seconds_json(const std::vector<Duration>& durations) {
  nlohmann::json list = nlohmann::json::array();
  for (const Duration each : durations) list.push_back(in_seconds(each));
  return list;
}

nlohmann::json sample_json(const Sample& sample) {
  return {{"uptime_s", in_seconds(sample.uptime)},
          {"rx_bytes", sample.rx_bytes},
          {"tx_bytes", sample.tx_bytes},
          {"blocks_completed", sample.blocks_completed},
          {"blocks_degraded", sample.blocks_degraded},
          {"cpu_s", seconds_json(sample.cpu)}};
}

nlohmann::json lateness_json(uint32_t job, uint32_t index, const SourceHistory& source) {
  nlohmann::json lateness = nlohmann::json::array();
  for (const Duration each : source.lateness) lateness.push_back(in_milliseconds(each));
  return {{"job", job}, {"source", index}, {"ranks", source.ranks}, {"lateness_ms", lateness}};
}

nlohmann::json stall_json(const Stall& stall, const JobHistory& job) {
  return {{"source", stall.source},
          {"ranks", job.sources[stall.source].ranks},
          {"block", stall.block_id},
          {"began_s", in_seconds(stall.began)},
          {"lasted_ms", in_milliseconds(stall.lasted)},
          {"ended", stall.ended}};
}

/// Returns the lateness of each source by all-reduce; null where it is unknown.
nlohmann::json begins_json(const BeginTable& begins) {
  nlohmann::json sources = nlohmann::json::array();
  for (const auto& lateness : begins.lateness) {
    nlohmann::json row = nlohmann::json::array();
    for (const auto& each : lateness) {
      row.push_back(each ? nlohmann::json(in_milliseconds(*each)) : nlohmann::json());
    }
    sources.push_back(std::move(row));
  }
  return {{"numbers", begins.numbers}, {"lateness_ms", std::move(sources)}};
}

/// A source with its total lateness, by which the rows are chosen.
struct Row {
  const JobHistory* job;
  uint32_t source;
  Duration total;
};

std::vector<Row> rows_of(const std::vector<JobHistory>& jobs) {
  std::vector<Row> rows;
  for (const JobHistory& job : jobs) {
    for (uint32_t i = 0; i < job.sources.size(); i++) {
      const auto& lateness = job.sources[i].lateness;
      rows.push_back({&job, i, std::accumulate(lateness.begin(), lateness.end(), Duration())});
    }
  }
  return rows;
}

}  // namespace

nlohmann::json history_json(const History& history) {
  nlohmann::json samples = nlohmann::json::array();
  for (const Sample& sample : history.samples()) samples.push_back(sample_json(sample));
  const std::vector<JobHistory> jobs = history.jobs();
  std::vector<Row> rows = rows_of(jobs);
  const size_t left_out = rows.size() - std::min<size_t>(rows.size(), kLateRowsMax);
  if (left_out > 0) {
    const auto place = [](const Row& row) { return std::pair(row.job->job, row.source); };
    std::ranges::sort(rows, [&place](const Row& a, const Row& b) {
      return a.total != b.total ? a.total > b.total : place(a) < place(b);
    });
    rows.resize(kLateRowsMax);
    std::ranges::sort(rows, {}, place);
  }
  nlohmann::json lateness = nlohmann::json::array();
  for (const Row& row : rows) {
    lateness.push_back(lateness_json(row.job->job, row.source, row.job->sources[row.source]));
  }
  return {{"every_ms", in_milliseconds(kSampleEvery)},
          {"samples", samples},
          {"lateness", lateness},
          {"lateness_left_out", left_out}};
}

nlohmann::json job_history_json(const History& history, uint32_t id) {
  const std::vector<JobHistory> jobs = history.jobs();
  const auto job = std::ranges::find(jobs, id, &JobHistory::job);
  if (job == jobs.end()) return nullptr;
  nlohmann::json lateness = nlohmann::json::array();
  for (uint32_t i = 0; i < job->sources.size(); i++) {
    lateness.push_back(lateness_json(id, i, job->sources[i]));
  }
  nlohmann::json stalls = nlohmann::json::array();
  for (const Stall& stall : job->stalls) stalls.push_back(stall_json(stall, *job));
  return {{"job", id},
          {"every_ms", in_milliseconds(kSampleEvery)},
          {"uptime_s", seconds_json(job->uptime)},
          {"blocks_total", job->blocks_total},
          {"lateness", lateness},
          {"all_reduces", begins_json(job->begins)},
          {"stalls", stalls}};
}

}  // namespace tributary::control
