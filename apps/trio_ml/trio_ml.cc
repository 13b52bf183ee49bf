// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/trio_ml.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"

namespace tributary::trio_ml {
namespace {

/// Without mitigation a scan only tells abandoned blocks from living ones. Assumed: no source that
/// still wants a block leaves it alone for twice this long.
constexpr Duration kAbandonScan = milliseconds(500);

/// How often sessions are looked after. An upper aggregator that hears nothing for kSilentAfter
/// gives this one up.
constexpr Duration kHousekeepingPeriod = milliseconds(1000);
static_assert(kHousekeepingPeriod * 3 < kSilentAfter);

/// Timers whose configuration check() has accepted.
timers::PeriodicTimers made(uint32_t thread_count, Duration period, uint32_t record_count,
                            Instant start) {
  const auto timers = timers::PeriodicTimers::create(
      {.thread_count = thread_count, .period = period, .record_count = record_count}, start);
  TRIB_ASSERT(timers.has_value());
  return *timers;
}

}  // namespace

Job::Job(const JobConfig& job_config, Session& job_session, BlockWindow job_window, Instant start)
    : config(job_config),
      session(job_session),
      window(std::move(job_window)),
      ref_bits(window.place_count()),
      aging(made(std::min(config.timer_threads, window.place_count()),
                 config.mitigation ? config.timeout : kAbandonScan, window.place_count(), start)),
      straggling(made(1, config.permanent_after, 1, start)),
      housekeeping(made(1, kHousekeepingPeriod, 1, start)),
      sources(config.sources),
      keys_(config.sources) {
  record.src_mask = first_sources(config.sources);
  record.active_mask = record.src_mask;
  destinations.reserve(config.sources);
  rebuild_destinations();
}

void Job::start_over(uint32_t session_number) {
  adopted_ = session_number;
  if (!TRIB_MUTANT(kOldBlocksKept)) {
    window.reset();
    ref_bits = memory::RefBits(window.place_count());
    record.block_curr_cnt = 0;
  }
  record.active_mask = record.src_mask;
  for (uint32_t source = 0; source < config.sources; source++) {
    sources[source] = SourceState{};
    keys_[source] = session.key_of(source);
  }
  rebuild_destinations();
}

bool Job::relocate(uint32_t source, Endpoint from) {
  Endpoint& known = sources[source].address;
  if (known.is_set() && config.pin) return false;
  known = from;
  rebuild_destinations();
  return true;
}

void Job::rebuild_destinations() {
  destinations.clear();
  if (config.group.is_set()) {
    destinations.push_back(config.group);
    return;
  }
  for (const SourceState& source : sources) {
    if (source.address.is_set()) destinations.push_back(source.address);
  }
}

Result<void> Shard::add_job(const JobConfig& config, Session& session, Instant start) {
  if (const auto checked = check(config); !checked) return checked;
  if (jobs_[config.id] != nullptr) {
    return failure(fmt::format("job {}: id={} is configured twice", config.id, config.id));
  }
  auto window = BlockWindow::create(config, shard_count_, memory_);
  if (!window) {
    return failure(
        fmt::format("job {}: block_cnt_max={}, block_grad_max={}, history={} need {} bytes: {}",
                    config.id, config.block_cnt_max, config.block_grad_max, config.history,
                    memory_bytes(config, shard_count_), window.error().text));
  }
  jobs_[config.id] = std::make_unique<Job>(config, session, *std::move(window), start);
  in_order_.push_back(jobs_[config.id].get());
  timers_due_ = Instant();  // Its timers have not been asked yet.
  return {};
}

void Shard::begin_burst() {
  for (Job* job : in_order_) {
    if (job->window.has_cooling()) job->window.thaw();
  }
}

Instant Shard::housekeeping_due(const Job& job) const {
  // Elsewhere it is never run: were it waited for there, an idle core would never sleep.
  return index_ == 0 ? job.housekeeping.next_due() : Instant::never();
}

void Shard::note_timers() {
  timers_due_ = Instant::never();
  for (const Job* job : in_order_) {
    timers_due_ = std::min(
        {timers_due_, job->aging.next_due(), job->straggling.next_due(), housekeeping_due(*job)});
  }
}

Instant Shard::next_due() const {
  Instant due = Instant::never();
  for (const Job* job : in_order_) {
    // Nothing in progress: nothing can age, so an idle server sleeps.
    if (job->record.block_curr_cnt > 0) due = std::min(due, job->aging.next_due());
    due = std::min({due, job->straggling.next_due(), housekeeping_due(*job)});
  }
  return due;
}

}  // namespace tributary::trio_ml
