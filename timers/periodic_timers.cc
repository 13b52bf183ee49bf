// SPDX-License-Identifier: Apache-2.0
#include "timers/periodic_timers.h"

#include <fmt/format.h>

#include "base/mutant.h"

namespace tributary::timers {

Result<PeriodicTimers> PeriodicTimers::create(const Config& config, Instant start) {
  if (config.thread_count == 0 || config.thread_count > kThreadCountMax) {
    return failure(fmt::format("the number of timer threads is {}; allowed: 1 to {}",
                               config.thread_count, kThreadCountMax));
  }
  if (config.period.ticks() < int64_t{config.thread_count}) {
    return failure(fmt::format(
        "the timer period is {} ps for {} threads; allowed: {} ps or more for each thread",
        config.period.ticks() * kPicosecondsPerTick, config.thread_count, kPicosecondsPerTick));
  }
  return PeriodicTimers(config, start);
}

PeriodicTimers::PeriodicTimers(const Config& config, Instant start)
    : config_(config), round_start_(start), next_due_(start + phase_of(0)) {}

Duration PeriodicTimers::phase_of(uint32_t thread) const {
  // floor((thread + 1) * period / N), in two parts so that the product cannot overflow: the second
  // product is below kThreadCountMax squared.
  const int64_t ticks = config_.period.ticks();
  const int64_t count = config_.thread_count;
  const int64_t turn = int64_t{thread} + 1;
  return Duration::from_ticks(turn * (ticks / count) + turn * (ticks % count) / count);
}

TimerSlice PeriodicTimers::next_slice() const {
  const auto share_begin = [this](uint64_t thread) {
    return static_cast<uint32_t>(thread * config_.record_count / config_.thread_count);
  };
  TimerSlice slice{.thread = next_thread_,
                   .begin = share_begin(next_thread_),
                   .end = share_begin(uint64_t{next_thread_} + 1),
                   .due_at = next_due_};
  if (TRIB_MUTANT(kLastPlaceUnscanned) && slice.end > slice.begin) slice.end--;
  return slice;
}

void PeriodicTimers::advance() {
  next_thread_++;
  if (next_thread_ == config_.thread_count) {
    next_thread_ = 0;
    round_start_ = round_start_ + config_.period;
  }
  next_due_ = round_start_ + phase_of(next_thread_);
}

void PeriodicTimers::skip_overdue(Instant now) {
  // Skip a run exactly if the same thread's next run is due as well, that is, if it lies a period
  // or more before `now`. First skip whole rounds in one step, …
  const int64_t periods = (now - next_due_).ticks() / config_.period.ticks();
  if (periods == 0) return;
  skipped_runs_ += static_cast<uint64_t>(periods - 1) * config_.thread_count;
  round_start_ = round_start_ + config_.period * (periods - 1);
  next_due_ = round_start_ + phase_of(next_thread_);
  // … then single runs, until less than a period is left: at most N steps.
  while (now - next_due_ >= config_.period) {
    skipped_runs_++;
    advance();
  }
}

}  // namespace tributary::timers
