// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/trio_ml/recording.h"
#include "base/assert.h"

namespace tributary::trio_ml {

Result<void> Shard::place_hash_tables() {
  TRIB_ASSERT(in_order_.empty());
  auto table = JobTable::create(memory_);
  if (!table) return tl::unexpected(table.error());
  job_table_ = *std::move(table);
  return {};
}

Result<void> Shard::add_job(const JobConfig& config, Session& session, Instant start) {
  if (jobs_[config.id] != nullptr) {
    return failure(fmt::format("job {}: id={} is configured twice", config.id, config.id));
  }
  auto job = make_job(config, session, start);
  if (!job) return tl::unexpected(job.error());
  insert(*std::move(job));
  return {};
}

Result<std::unique_ptr<Job>> Shard::make_job(const JobConfig& config, Session& session,
                                             Instant start) const {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  auto window = BlockWindow::create(config, shard_count_, memory_);
  if (!window) {
    return failure(
        fmt::format("job {}: block_cnt_max={}, block_grad_max={}, history={} need {} bytes: {}",
                    config.id, config.block_cnt_max, config.block_grad_max, config.history,
                    memory_bytes(config, shard_count_), window.error().text));
  }
  std::unique_ptr<ParameterStore> parameters;
  if (config.asynchronous) {
    if (shard_count_ != 1) {
      return failure(fmt::format(
          "job {}: asynchronous=on needs an aggregator with one core; this one has {}: give "
          "--cores 1",
          config.id, shard_count_));
    }
    auto store = ParameterStore::create(config, memory_);
    if (!store) {
      return failure(fmt::format("job {}: parameters={}, sources={} need {} bytes: {}", config.id,
                                 config.parameters, config.sources,
                                 memory_bytes(config, shard_count_), store.error().text));
    }
    parameters = *std::move(store);
  }
  auto job = std::make_unique<Job>(config, session, *std::move(window), std::move(parameters),
                                   index_, start);
  if (job_table_ != nullptr) {
    auto table = BlockTable::create(config.id, job->window.place_count(), memory_);
    if (!table) {
      return failure(fmt::format("job {}: the hash table of its blocks needs {} bytes: {}",
                                 config.id, BlockTable::memory_bytes(job->window.place_count()),
                                 table.error().text));
    }
    job->table = *std::move(table);
  }
  return job;
}

void Shard::insert(std::unique_ptr<Job> job) {
  std::unique_ptr<Job>& place = jobs_[job->config.id];
  TRIB_ASSERT(place == nullptr);
  place = std::move(job);
  in_order_.push_back(place.get());
  if (job_table_ != nullptr) job_table_->insert(place->config.id);
  timers_due_ = Instant();  // Its timers have not run yet.
}

std::unique_ptr<Job> Shard::remove(uint8_t id) {
  end_runs();  // They lie in the job.
  std::erase(in_order_, jobs_[id].get());
  if (job_table_ != nullptr && jobs_[id] != nullptr) job_table_->erase(id);
  return std::move(jobs_[id]);
}

void Shard::set_timeout(uint8_t id, Duration timeout, Instant now) {
  jobs_[id]->set_timeout(timeout, now);
  timers_due_ = Instant();
}

void Shard::record_to(recorder::Writer* recorder) {
  end_runs();
  recorder_ = recorder;
  // Otherwise a block that continues a run from before would never be recorded.
  for (Job* job : in_order_) {
    std::fill(job->arrivals.begin(), job->arrivals.end(), recorder::BlockRun());
    job->completions = recorder::BlockRun();
  }
}

void Shard::note(const Job& job, uint32_t source, Event event) {
  if (events_ == nullptr && recorder_ == nullptr) return;
  event.job_id = job.config.id;
  if (source < job.config.sources) {
    event.ranks = job.session.ranks_of(source);
    if (!event.address.is_set()) event.address = job.sources[source].address;
  }
  note(event);
}

void Shard::note(const Event& event) {
  if (events_ == nullptr && recorder_ == nullptr) return;
  const bool is_left_out = can_strangers_cause(event.kind) && !stranger_events_.take(event.at);
  if (events_ != nullptr) is_left_out ? events_->lose() : events_->put(event);
  if (recorder_ != nullptr) {
    is_left_out ? recorder_->leave_out() : recorder_->note(recorded(event), event.at);
  }
}

void Shard::begin_burst() {
  for (Job* job : in_order_) {
    if (job->window.has_cooling()) job->window.free_cooling();
  }
}

Instant Shard::housekeeping_due(const Job& job) const {
  // Other shards never run it. If they waited for it, an idle core would never sleep.
  return index_ == 0 ? job.housekeeping.next_due() : Instant::never();
}

void Shard::note_timers() {
  timers_due_ = Instant::never();
  for (const Job* job : in_order_) {
    timers_due_ = std::min({timers_due_, job->aging.next_due(), job->straggling.next_due(),
                            job->idle_memory_due(), housekeeping_due(*job)});
  }
}

Instant Shard::next_due() const {
  Instant due = Instant::never();
  for (const Job* job : in_order_) {
    // Without a block in progress nothing can age, so an idle server sleeps.
    if (job->record.block_curr_cnt > 0) due = std::min(due, job->aging.next_due());
    due =
        std::min({due, job->straggling.next_due(), job->idle_memory_due(), housekeeping_due(*job)});
  }
  return due;
}

}  // namespace tributary::trio_ml
