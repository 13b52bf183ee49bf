// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/job.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/mutant.h"

namespace tributary::trio_ml {
namespace {

/// Period of the scans without mitigation, which only find abandoned blocks. Assumed: a source that
/// still needs a block contributes to it again within twice this period.
constexpr Duration kAbandonScan = milliseconds(500);

/// Period of session checks and of keep-alives to the upper aggregator, which expires a member
/// after kSilentAfter without a message.
constexpr Duration kHousekeepingPeriod = milliseconds(500);
static_assert(kHousekeepingPeriod * 3 < kSilentAfter);

/// Returns the budget of replies to one source.
ReplyBudget budget_of(const JobConfig& config) {
  constexpr uint64_t kBitsPerByte = 8;
  constexpr uint64_t kMillisecondsPerSecond = 1000;
  constexpr uint64_t kPerMsMin = 64;
  const uint64_t packet_bytes =
      wire::kUnsealedHeadBytesMax + uint64_t{config.block_grad_max} * wire::kGradientBytes;
  const uint64_t bytes_per_ms = config.reply_bits_per_s / kBitsPerByte / kMillisecondsPerSecond;
  return {/*burst=*/4 * config.block_cnt_max,
          static_cast<uint32_t>(
              std::clamp<uint64_t>(bytes_per_ms / packet_bytes, kPerMsMin, UINT32_MAX))};
}

/// Returns timers with a configuration that check() has accepted.
timers::PeriodicTimers made(uint32_t thread_count, Duration period, uint32_t record_count,
                            Instant start) {
  const auto timers = timers::PeriodicTimers::create(
      {.thread_count = thread_count, .period = period, .record_count = record_count}, start);
  TRIB_ASSERT(timers.has_value());
  return *timers;
}

}  // namespace

Job::Job(const JobConfig& job_config, Session& job_session, BlockWindow job_window,
         std::unique_ptr<ParameterStore> job_parameters, uint32_t lane, Instant start)
    : config(job_config),
      session(job_session),
      window(std::move(job_window)),
      parameters(std::move(job_parameters)),
      ref_bits(window.place_count()),
      aging(made(std::min(config.timer_threads, window.place_count()),
                 config.mitigation ? config.timeout : kAbandonScan, window.place_count(), start)),
      straggling(made(1, config.permanent_after, 1, start)),
      housekeeping(made(1, kHousekeepingPeriod, 1, start)),
      end(config.auth, config.id, lane, config.sources,
          config.sources_are_aggregators ? auth::kLanesMax : 1),
      upward_end(config.auth, config.id, lane),
      reports(config.reports && lane == 0 ? config.sources : 0),
      refused_joins(lane == 0 ? config.sources : 0),
      sources(config.sources),
      arrivals(config.sources),
      keys_(config.sources),
      budgets_(config.sources, budget_of(config)) {
  record.src_mask = first_sources(config.sources);
  record.active_mask = record.src_mask;
  destinations.reserve(config.sources);
  rebuild_destinations();
}

void Job::set_timeout(Duration timeout, Instant now) {
  config.timeout = timeout;
  aging = made(aging.config().thread_count, config.mitigation ? timeout : kAbandonScan,
               window.place_count(), now);
}

void Job::evict(uint32_t source, uint64_t new_key) {
  sources[source] = SourceState{};
  rebuild_destinations();
  if (adopted_ == 0) return;
  keys_[source] = new_key;
  if (config.mitigation && !config.ends_at_leave()) exclude(record.active_mask, source);
}

void Job::forget_address(uint32_t source) {
  if (!sources[source].address.is_set()) return;
  sources[source].address = Endpoint();
  rebuild_destinations();
}

void Job::start_over(uint32_t session_number) {
  adopted_ = session_number;
  if (!TRIB_MUTANT(kOldBlocksKept)) {
    window.reset();
    if (table != nullptr) table->clear();
    ref_bits = memory::RefBits(window.place_count());
    record.block_curr_cnt = 0;
  }
  record.active_mask = record.src_mask;
  silent = {};
  mismatch.reset();
  // The reports of a session that has ended stay until the next one.
  if (session_number != 0) std::fill(reports.begin(), reports.end(), MemberReport());
  for (uint32_t source = 0; source < config.sources; source++) {
    sources[source] = SourceState{};
    keys_[source] = session_number == 0 ? 0 : session.key_of(source, session_number);
  }
  blocks_begun = record.block_total_cnt + record.block_curr_cnt;
  if (parameters != nullptr && session_number != 0) {
    const wire::ControlBody terms = session.welcome_body(/*source=*/0);
    parameters->start(session_number, terms.gradients_max, terms.window, terms.share);
  }
  result_key_ = session_number == 0 ? 0 : session.result_key(session_number);
  if (session_number != 0) {
    end.start(session.salt(session_number));
    if (config.upstream.is_set()) upward_end.start(session.upstream_salt());
  }
  rebuild_destinations();
  idle_pages_.clear();
  idle_memory_due_ = Instant::never();
  if (session_number != 0) return;
  idle_pages_.add(window.buffers());
  if (parameters == nullptr) return;
  for (const std::span<std::byte> bytes : parameters->session_memory()) idle_pages_.add(bytes);
}

void Job::return_idle_memory(Instant now) {
  adopt(0);  // Shards other than 0 may not have noticed the end of the session.
  if (idle_pages_.is_done()) return;
  if (!window.is_empty()) idle_pages_.clear();  // Plain packets use it.
  if (idle_memory_due_ == Instant::never()) idle_memory_due_ = now + kIdleMemoryAfter;
  if (!idle_pages_.is_done() && now >= idle_memory_due_) {
    idle_pages_.return_slice();
    idle_memory_due_ = now + kIdleMemoryPause;
  }
  if (idle_pages_.is_done()) idle_memory_due_ = Instant::never();
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

}  // namespace tributary::trio_ml
