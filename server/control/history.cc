// SPDX-License-Identifier: Apache-2.0
#include "server/control/history.h"

#include <algorithm>
#include <chrono>

#include "apps/trio_ml/records.h"
#include "base/cpus.h"

namespace tributary::control {
namespace {

using server::BlockSnapshot;
using server::JobSnapshot;
using server::Snapshot;
using trio_ml::Outcome;

template <class Value>
void push_bounded(std::deque<Value>& values, Value value) {
  if (values.size() == kSamplesMax) values.pop_front();
  values.push_back(std::move(value));
}

/// Returns the oldest block that lacks the source; null if none does.
const BlockSnapshot* oldest_without(const JobSnapshot& job, uint32_t source) {
  const auto lacks = [source](const BlockSnapshot& block) {
    return trio_ml::contains(block.missing, source);
  };
  const auto found = std::ranges::find_if(job.blocks, lacks);
  return found == job.blocks.end() ? nullptr : &*found;
}

Sample sample_of(const Snapshot& snapshot) {
  Sample sample{.uptime = snapshot.uptime};
  for (const auto& port : snapshot.ports) {
    sample.rx_bytes += port.rx_bytes;
    sample.tx_bytes += port.tx_bytes;
  }
  for (const auto& core : snapshot.cores) sample.cpu.push_back(core.cpu);
  sample.blocks_completed = snapshot.packets(Outcome::kBlockCompleted);
  sample.blocks_degraded = snapshot.packets(Outcome::kBlockDegraded);
  return sample;
}

}  // namespace

uint32_t lateness_bucket(Duration lateness) {
  const auto* const bound = std::ranges::lower_bound(kLatenessBounds, lateness);
  return static_cast<uint32_t>(bound - kLatenessBounds.begin());
}

void History::add(const Snapshot& snapshot) {
  const std::lock_guard lock(mutex_);
  push_bounded(samples_, sample_of(snapshot));
  std::erase_if(jobs_, [&snapshot](const auto& entry) {
    return std::ranges::none_of(
        snapshot.jobs, [&entry](const JobSnapshot& job) { return job.config.id == entry.first; });
  });
  for (const JobSnapshot& job : snapshot.jobs) add_job(jobs_[job.config.id], job, snapshot);
}

void History::add_job(JobRecord& record, const JobSnapshot& job, const Snapshot& snapshot) {
  // Another job has taken the id.
  const bool fell = !record.blocks_total.empty() && job.blocks_total < record.blocks_total.back();
  if (fell || record.sources.size() != job.sources.size()) record = {};
  record.sources.resize(job.sources.size());
  push_bounded(record.uptime, snapshot.uptime);
  push_bounded(record.blocks_total, job.blocks_total);
  record.begins.add(job, snapshot.at);
  for (uint32_t i = 0; i < job.sources.size(); i++) {
    SourceRecord& source = record.sources[i];
    const BlockSnapshot* const block = oldest_without(job, i);
    const Duration lateness =
        block == nullptr ? Duration()
                         : std::clamp(snapshot.at - block->referenced_at, Duration(), kLatenessMax);
    source.ranks = job.sources[i].ranks;
    push_bounded(source.lateness_steps,
                 static_cast<uint16_t>(in_nanoseconds(lateness) / in_nanoseconds(kLatenessStep)));
    source.histogram.counts[lateness_bucket(lateness)]++;
    source.histogram.sum_s += in_seconds(lateness);
    note_stall(record, i, block, lateness, snapshot.uptime);
  }
}

void History::note_stall(JobRecord& record, uint32_t source, const BlockSnapshot* block,
                         Duration lateness, Duration uptime) {
  bool& stalled = record.sources[source].stalled;
  const bool is_late = lateness >= kStallShown;
  if (stalled) {
    const auto newest = std::ranges::find(record.stalls, source, &Stall::source);
    stalled = is_late && newest != record.stalls.end();
    if (newest != record.stalls.end()) {
      newest->ended = !is_late;
      if (is_late) newest->lasted = std::max(newest->lasted, lateness);
    }
  } else if (is_late) {
    if (record.stalls.size() == kStallsMax) record.stalls.pop_back();
    record.stalls.push_front({.source = source,
                              .block_id = block->block_id,
                              .began = uptime - std::min(lateness, uptime),
                              .lasted = lateness});
    stalled = true;
  }
}

std::vector<Sample> History::samples() const {
  const std::lock_guard lock(mutex_);
  return {samples_.begin(), samples_.end()};
}

std::vector<JobHistory> History::jobs() const {
  const std::lock_guard lock(mutex_);
  std::vector<JobHistory> jobs;
  for (const auto& [id, record] : jobs_) {
    JobHistory& job = jobs.emplace_back();
    job.job = id;
    job.uptime.assign(record.uptime.begin(), record.uptime.end());
    job.blocks_total.assign(record.blocks_total.begin(), record.blocks_total.end());
    job.stalls.assign(record.stalls.begin(), record.stalls.end());
    job.begins = record.begins.table();
    for (const SourceRecord& source : record.sources) {
      SourceHistory& copy = job.sources.emplace_back();
      copy.ranks = source.ranks;
      copy.histogram = source.histogram;
      for (const uint16_t steps : source.lateness_steps) {
        copy.lateness.push_back(kLatenessStep * steps);
      }
    }
  }
  return jobs;
}

Observer::Observer(std::function<Snapshot()> snapshot, History& history)
    : snapshot_(std::move(snapshot)), history_(history), thread_([this] { run(); }) {}

Observer::~Observer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Observer::run() {
  take_short_slices();  // While it waits for a snapshot, nobody else gets one.
  const std::chrono::nanoseconds pause(in_nanoseconds(kSampleEvery));
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    history_.add(snapshot_());
    lock.lock();
    wake_.wait_for(lock, pause, [this] { return ending_; });
  }
}

}  // namespace tributary::control
