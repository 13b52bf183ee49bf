// SPDX-License-Identifier: Apache-2.0
#include "host/channel_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/assert.h"
#include "host/tensor_parts.h"
#include "host/worker_errors.h"

namespace tributary::host {
namespace {

Result<void> check_packets(const TensorProtocol& protocol, const engine::Port& port) {
  if (protocol.packet_bytes_max() <= port.payload_bytes_max()) return {};
  return failure(fmt::format("packets of {} bytes are not allowed; allowed is {}, by the port",
                             protocol.packet_bytes_max(), port.payload_bytes_max()));
}

}  // namespace

void ChannelGroup::on_phase(Channel& channel) {
  const std::lock_guard lock(mutex_);
  note_end(channel);
  changed_.notify_all();
}

void ChannelGroup::on_done(std::span<Channel::Part* const> parts) {
  const std::lock_guard lock(mutex_);
  for (const Channel::Part* part : parts) entries_.at(part->number).parts_left--;
  changed_.notify_all();
}

/// The first channel that has ended ends the others with its reason. @pre mutex_ is held.
void ChannelGroup::note_end(const Channel& ended) {
  const Channel::Snapshot snapshot = ended.snapshot();
  if (snapshot.phase != TensorProtocol::Phase::kEnded || failure_) return;
  failure_ = Failure{snapshot.status, snapshot.text, 0};
  for (size_t i = 0; i < channels_.size(); i++) {
    if (channels_[i].get() != &ended || failure_->status == Status::kClosed) continue;
    failure_->text += places_[i].text;
    if (failure_->status == Status::kAggregatorGone) {
      failure_->lost_aggregator = places_[i].aggregator;
    }
  }
  for (const auto& channel : channels_) {
    if (channel.get() == &ended) continue;
    channel->fail(failure_->status, failure_->text, failure_->lost_aggregator);
  }
}

Result<void> ChannelGroup::add_channel(std::unique_ptr<TensorProtocol> protocol,
                                       std::unique_ptr<engine::Port> port, ChannelPlace place) {
  if (const auto fits = check_packets(*protocol, *port); !fits) return fits;
  const std::lock_guard lock(mutex_);
  places_.push_back(std::move(place));
  channels_.push_back(std::make_unique<Channel>(std::move(protocol), std::move(port), *this));
  channels_.back()->start();
  if (failure_) {
    channels_.back()->fail(failure_->status, failure_->text, failure_->lost_aggregator);
  }
  if (leaving_) channels_.back()->leave();
  return {};
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
  for (const auto& channel : channels_) {
    joining = joining || channel->snapshot().phase == TensorProtocol::Phase::kJoining;
    note_end(*channel);
  }
  return failure_ || !joining;
}

Result<void> ChannelGroup::wait_for_joins(Status* status) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return joins_are_over(); });
  if (!failure_) return {};
  if (status != nullptr) *status = failure_->status;
  return tl::unexpected(Error{failure_->text});
}

uint64_t ChannelGroup::submit(const Transfer& transfer) {
  std::unique_lock lock(mutex_);
  const uint64_t number = next_number_++;
  Entry& entry = entries_[number];
  const auto cut = cutter_->cut(transfer.element_count(), gradients_, wire::kGradientBytes);
  for (const plan::Part& part : cut) {
    entry.parts.push_back({.number = number,
                           .element_first = part.element_first,
                           .transfer = transfer_of(transfer, part)});
  }
  // Under the lock, so that every channel gets the parts in the order of the calls.
  for (size_t i = 0; i < cut.size(); i++) {
    Channel& channel = *channels_[cut[i].aggregator];
    if (!failure_ && channel.submit(entry.parts[i])) {
      entry.parts_left++;
      continue;
    }
    note_end(channel);
    entry.parts[i].transfer.outcome.status = failure_->status;
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
  Outcome outcome;
  bool failed = false;
  for (Channel::Part& part : entry.parts) {
    failed = failed || !goes_on_after(part.transfer.outcome.status);
    add_outcome(outcome, std::move(part.transfer.outcome), part.element_first);
  }
  if (failed) {
    outcome.status = failure_->status;
    outcome.text = failure_->text;
  }
  if (outcome.status == Status::kOk) {
    const Transfer& any = entry.parts.front().transfer;
    outcome.warning = precision_warning(outcome, any.format, any.scale);
  }
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

void ChannelGroup::close() {
  for (const auto& channel : channels_) channel->leave();
  for (const auto& channel : channels_) channel->join();
}

void ChannelGroup::set_cut(uint32_t gradients, std::vector<uint32_t> weights) {
  gradients_ = gradients;
  cutter_.emplace(std::move(weights));
}

}  // namespace tributary::host
