// SPDX-License-Identifier: Apache-2.0
#include "host/channel_thread.h"

#include <algorithm>
#include <chrono>

#include "base/assert.h"
#include "base/clock.h"

namespace tributary::host {
namespace {

/// Longest sleep of the thread; bounds the delay after a lost wake-up.
constexpr Duration kSleepMax = milliseconds(100);

}  // namespace

// --- Any thread ---

ChannelThread::~ChannelThread() {
  {
    const std::lock_guard lock(mutex_);
    for (Channel* each : channels_) each->leave();
  }
  finish();
}

void ChannelThread::add(Channel& channel) {
  const std::lock_guard lock(mutex_);
  TRIB_ASSERT(!finishing_);
  added_.push_back(&channel);
  channels_.push_back(&channel);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
  for (Channel* each : channels_) each->wake();
}

void ChannelThread::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// --- The thread ---

void ChannelThread::run() {
  while (take_added()) {
    const Loop loop = run_rounds();
    drop_ended();
    if (!running_.empty()) pause(loop);
  }
}

/// Takes new channels. Waits for one if there is none to drive. @return false at the end.
bool ChannelThread::take_added() {
  std::unique_lock lock(mutex_);
  if (running_.empty()) {
    changed_.wait(lock, [this] { return finishing_ || !added_.empty(); });
  }
  running_.insert(running_.end(), added_.begin(), added_.end());
  added_.clear();
  return !running_.empty();
}

ChannelThread::Loop ChannelThread::run_rounds() {
  Loop loop{.now = monotonic_now()};
  for (Channel* channel : running_) {
    const Channel::Round round = channel->run_round(loop.now);
    loop.received = loop.received || round.received > 0;
    loop.is_busy = loop.is_busy || round.is_busy();
    loop.is_full = loop.is_full || round.is_full();
  }
  if (loop.received && waits_now_) yield_policy_.on_packet(loop.now - busy_at_);
  if (loop.is_busy) busy_at_ = loop.now;
  return loop;
}

void ChannelThread::drop_ended() {
  const auto ended = std::partition(running_.begin(), running_.end(),
                                    [](const Channel* each) { return !each->has_ended(); });
  for (auto each = ended; each != running_.end(); ++each) (*each)->finish();
  running_.erase(ended, running_.end());
}

/// Naps, yields or sleeps until there may be work.
void ChannelThread::pause(const Loop& loop) {
  waits_now_ = !loop.is_busy;
  if (loop.is_full) return expect_packets();
  const Duration nap_time = loop.received ? nap(loop.now) : Duration();
  if (nap_time > Duration()) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(in_nanoseconds(nap_time)));
    return expect_packets();
  }
  if (is_working() && yield_policy_.pays()) {
    if (!loop.is_busy) {
      yield_policy_.on_yield();
      std::this_thread::yield();
    }
    return expect_packets();
  }
  waits_now_ = true;
  sleep(until_due(loop.now));
}

bool ChannelThread::is_working() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const Channel* each) { return each->is_working(); });
}

/// Returns how long all working channels may leave results unread. wake() does not end a nap.
Duration ChannelThread::nap(Instant now) const {
  Duration shortest = until_due(now);
  for (Channel* channel : running_) {
    if (channel->is_working()) shortest = std::min(shortest, channel->nap(now));
  }
  return is_working() ? shortest : Duration();
}

/// Returns the time until the next deadline, at most kSleepMax.
Duration ChannelThread::until_due(Instant now) const {
  Duration until = kSleepMax;
  for (const Channel* channel : running_) until = std::min(until, channel->next_deadline() - now);
  return std::max(until, Duration());
}

void ChannelThread::sleep(Duration at_most) {
  if (!running_.front()->can_share_thread()) {
    TRIB_ASSERT(running_.size() == 1);
    return running_.front()->wait(at_most);
  }
  waits_.clear();
  for (Channel* channel : running_) channel->add_to(waits_);
  waits_.wait(at_most);
}

void ChannelThread::expect_packets() {
  for (Channel* channel : running_) channel->expect_packets();
}

}  // namespace tributary::host
