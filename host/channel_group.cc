// SPDX-License-Identifier: Apache-2.0
#include "host/channel_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/assert.h"
#include "host/worker_recorder.h"

namespace tributary::host {
namespace {

Result<void> check_packets(const TensorProtocol& protocol, const engine::Port& port) {
  if (protocol.packet_bytes_max() <= port.payload_bytes_max()) return {};
  return failure(fmt::format("packets of {} bytes are not allowed; allowed: {}, by the port",
                             protocol.packet_bytes_max(), port.payload_bytes_max()));
}

}  // namespace

void ChannelGroup::on_phase(Channel& channel) {
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < channels_.size(); i++) {
    if (channels_[i].get() == &channel) note_end(i);
  }
  changed_.notify_all();
  const bool has_failed = state_.failure() && state_.failure()->status != Status::kClosed;
  const std::shared_ptr<WorkerRecorder> recorder = recorder_;
  lock.unlock();
  // Without the lock: the disk may be slow.
  if (has_failed && recorder != nullptr) recorder->store(recorder::Cause::kFailure);
}

void ChannelGroup::record_to(std::shared_ptr<WorkerRecorder> recorder) {
  const std::lock_guard lock(mutex_);
  recorder_ = std::move(recorder);
}

void ChannelGroup::on_done(std::span<Channel::Part* const> parts) {
  const std::lock_guard lock(mutex_);
  for (const Channel::Part* part : parts) entries_.at(part->number).parts_left--;
  changed_.notify_all();
}

void ChannelGroup::on_gate_open(uint32_t priority) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < channels_.size(); i++) {
    if (state_.place(i).priority > priority) channels_[i]->wake();
  }
}

/// Ends the other channels if this one has ended, as the first. @pre mutex_ is held.
void ChannelGroup::note_end(size_t ended) {
  const Channel::Snapshot snapshot = channels_[ended]->snapshot();
  if (snapshot.phase != TensorProtocol::Phase::kEnded) return;
  const auto others =
      state_.note_end(ended, {snapshot.status, snapshot.text, snapshot.lost_aggregator});
  for (const size_t other : others) end(*channels_[other]);
}

/// Ends a channel for the first failure. @pre mutex_ is held.
void ChannelGroup::end(Channel& channel) const {
  const EndReason& failure = *state_.failure();
  channel.fail(failure.status, failure.text, failure.lost_aggregator);
}

Result<void> ChannelGroup::add_channel(std::unique_ptr<TensorProtocol> protocol,
                                       std::unique_ptr<engine::Port> port, ChannelPlace place) {
  if (const auto fits = check_packets(*protocol, *port); !fits) return fits;
  const std::lock_guard lock(mutex_);
  const Channel::Urgency urgency(has_priorities_ ? &gate_ : nullptr, place.priority);
  const uint32_t thread = place.thread;
  state_.add(std::move(place));
  channels_.push_back(
      std::make_unique<Channel>(std::move(protocol), std::move(port), *this, urgency));
  Channel& channel = *channels_.back();
  if (state_.failure()) end(channel);
  if (leaving_) channel.leave();
  thread_for(channel, thread).add(channel);
  return {};
}

/// Returns the thread that drives a new channel. @pre mutex_ is held.
ChannelThread& ChannelGroup::thread_for(const Channel& channel, uint32_t thread) {
  if (!channel.can_share_thread()) {
    return *single_threads_.emplace_back(std::make_unique<ChannelThread>());
  }
  while (threads_.size() <= thread) threads_.push_back(std::make_unique<ChannelThread>());
  return *threads_[thread];
}

void ChannelGroup::leave_all() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  for (const auto& channel : channels_) channel->leave();
}

/// Returns true if every channel has joined, or one has ended. A channel may show its end before
/// it calls on_phase(), so this checks for the end too. @pre mutex_ is held.
bool ChannelGroup::joins_are_over() {
  bool joining = false;
  for (size_t i = 0; i < channels_.size(); i++) {
    joining = joining || channels_[i]->snapshot().phase == TensorProtocol::Phase::kJoining;
    note_end(i);
  }
  return state_.failure() || !joining;
}

Result<void> ChannelGroup::wait_for_joins(Status* status) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return joins_are_over(); });
  if (!state_.failure()) return {};
  if (status != nullptr) *status = state_.failure()->status;
  return tl::unexpected(Error{state_.failure()->text});
}

uint64_t ChannelGroup::submit(const Transfer& transfer) {
  std::unique_lock lock(mutex_);
  const uint64_t number = next_number_++;
  Entry& entry = entries_[number];
  const auto cut = state_.cut(transfer);
  for (const plan::Part& part : cut) {
    entry.parts.push_back({.number = number,
                           .element_first = part.element_first,
                           .transfer = transfer_of(transfer, part)});
    entry.parts.back().transfer.all_reduce = static_cast<uint32_t>(number) + 1;
  }
  // Under the lock, so that every channel gets the parts in the order of the calls.
  for (size_t i = 0; i < cut.size(); i++) {
    Channel& channel = *channels_[cut[i].aggregator];
    if (!state_.failure() && channel.submit(entry.parts[i])) {
      entry.parts_left++;
      continue;
    }
    note_end(cut[i].aggregator);
    entry.parts[i].transfer.outcome.status = state_.failure()->status;
  }
  lock.unlock();
  for (size_t i = 0; i < cut.size(); i++) {
    const bool is_last = i + 1 == cut.size() || cut[i + 1].aggregator != cut[i].aggregator;
    if (is_last) channels_[cut[i].aggregator]->wake();
  }
  return number;
}

Outcome ChannelGroup::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  TRIB_ASSERT(entries_.contains(number));  // wait() once for each ticket.
  Entry& entry = entries_.at(number);      // Stays in place when others are added.
  changed_.wait(lock, [&entry] { return entry.parts_left == 0; });
  Outcome outcome = state_.merge(entry.parts);
  entries_.erase(number);
  return outcome;
}

bool ChannelGroup::wait_until_done(uint64_t number, Duration at_most) {
  std::unique_lock lock(mutex_);
  const auto done = [this, number] {
    const auto found = entries_.find(number);
    return found == entries_.end() || found->second.parts_left == 0;
  };
  // Limit to a year: the range of the clock's type is smaller than Duration's.
  const auto wait_ns = std::chrono::nanoseconds(
      in_nanoseconds(std::clamp(at_most, Duration(), seconds(365LL * 24 * 3600))));
  return changed_.wait_for(lock, wait_ns, done);
}

std::optional<std::vector<Aggregator>> ChannelGroup::next_list() {
  const std::lock_guard lock(mutex_);
  bool differ = false;
  for (const auto& channel : channels_) {
    const Channel::Snapshot snapshot = channel->snapshot();
    if (!snapshot.redirection.empty()) return snapshot.redirection;
    differ = differ || snapshot.refusal == wire::Reason::kListsDiffer;
  }
  if (differ) return std::vector<Aggregator>{};
  return {};
}

bool ChannelGroup::has_lost_aggregator() {
  using wire::Reason;
  const std::lock_guard lock(mutex_);
  if (!state_.failure()) return false;
  if (state_.failure()->status == Status::kAggregatorGone) return true;
  return std::any_of(channels_.begin(), channels_.end(), [](const auto& channel) {
    const Reason refusal = channel->snapshot().refusal;
    return refusal == Reason::kServerStopped || refusal == Reason::kJobRemoved ||
           refusal == Reason::kUnknownJob;
  });
}

void ChannelGroup::close() {
  for (const auto& channel : channels_) channel->leave();
  for (const auto& thread : threads_) thread->finish();
  for (const auto& thread : single_threads_) thread->finish();
  if (recorder_ != nullptr) recorder_->store(recorder::Cause::kEnd);
}

void ChannelGroup::set_cut(uint32_t gradients, uint32_t narrow_gradients,
                           const std::vector<uint32_t>& weights) {
  state_.set_cut(gradients, narrow_gradients, weights);
}

}  // namespace tributary::host
