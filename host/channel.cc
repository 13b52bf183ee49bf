// SPDX-License-Identifier: Apache-2.0
#include "host/channel.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "io/udp/udp_port.h"

namespace tributary::host {
namespace {

/// A channel that waits alone, and has a socket for a multicast group, waits for the group's
/// results and polls its own port this often.
constexpr Duration kGroupSleepMax = milliseconds(2);

}  // namespace

Channel::Channel(std::unique_ptr<TensorProtocol> protocol, std::unique_ptr<engine::Port> port,
                 Owner& owner, Urgency urgency)
    : port_(std::move(port)),
      queue_(port_->queue(0)),
      owner_(owner),
      urgency_(urgency),
      protocol_(std::move(protocol)),
      packet_bytes_(protocol_->packet_bytes_max()),
      send_bytes_(size_t{engine::kBurstPackets} * packet_bytes_),
      snapshot_(make_snapshot()) {
  protocol_->gather_packets(
      std::max(1U, io::kUdpTrainBytesMax / static_cast<uint32_t>(packet_bytes_)));
}

// --- Any thread ---

bool Channel::submit(Part& part) {
  const std::lock_guard lock(mutex_);
  if (takes_no_more_) return false;
  submitted_.push_back(&part);
  return true;
}

void Channel::leave() {
  {
    const std::lock_guard lock(mutex_);
    leave_requested_ = true;
  }
  wake();
}

void Channel::fail(Status status, const std::string& text, uint32_t lost_aggregator) {
  {
    const std::lock_guard lock(mutex_);
    if (!requested_failure_) requested_failure_ = Failure{status, text, lost_aggregator};
  }
  wake();
}

Channel::Snapshot Channel::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

// --- The thread ---

Channel::Round Channel::run_round(Instant now) {
  take_requests(now);
  Round round;
  if (expects_packets_) round.received = receive(now);
  if (round.received == 0) check_refusals(now);
  protocol_->on_time(now);
  tell_gate();
  round.sent = send(now);
  tell_gate();
  publish_progress();
  notify_owner();
  const bool has_nothing_to_do = protocol_->phase() == TensorProtocol::Phase::kEnded &&
                                 protocol_->next_deadline() == Instant::never();
  has_ended_ = has_nothing_to_do && round.sent == 0;
  is_ending_ = has_nothing_to_do && round.sent > 0;
  if (protocol_->group().is_set() && !group_is_open_) open_group();
  return round;
}

void Channel::finish() {
  {
    const std::lock_guard lock(mutex_);
    takes_no_more_ = true;
    snapshot_ = make_snapshot();  // Includes the leaves.
  }
  // Parts submitted meanwhile fail. submit() refuses later ones.
  take_requests(monotonic_now());
  notify_owner();
}

void Channel::take_requests(Instant now) {
  std::optional<Failure> failure;
  bool leave = false;
  {
    const std::lock_guard lock(mutex_);
    taken_.swap(submitted_);
    failure = std::exchange(requested_failure_, {});
    leave = leave_requested_;
  }
  if (!taken_.empty() && protocol_->idle()) nap_policy_.begin();
  for (Part* part : taken_) {
    protocol_->submit(part->transfer, now);
    in_work_.push_back(part);
  }
  taken_.clear();
  if (protocol_->phase() == TensorProtocol::Phase::kEnded) return;
  if (failure) {
    protocol_->fail(failure->status, std::move(failure->text), failure->lost_aggregator);
  } else if (leave) {
    protocol_->leave(now);
  }
}

uint32_t Channel::receive(Instant now) {
  uint32_t count = receive_from(queue_, now);
  if (group_port_ != nullptr) count += receive_from(group_port_->queue(0), now);
  return count;
}

uint32_t Channel::receive_from(engine::PortQueue& from, Instant now) {
  const uint32_t count = from.receive(burst_);
  for (uint32_t i = 0; i < count; i++) {
    const engine::Packet& packet = burst_[i];
    // Anybody can send to a multicast group.
    if (!protocol_->accepts_from(packet.source)) continue;
    protocol_->on_packet(
        {.from = packet.source, .stored = packet.bytes(), .size_bytes = packet.size}, now);
  }
  return count;
}

/// Tells the protocol about ICMP messages of the peer's machine, and about the end of a connection.
/// Rounds with packets need not ask: a peer that sends is there.
void Channel::check_refusals(Instant now) {
  const engine::PortCounters counters = queue_.counters();
  if (counters.peer_closed != 0) protocol_->on_closed();
  if (counters.peer_refused == peer_refused_) return;
  peer_refused_ = counters.peer_refused;
  protocol_->on_refused(now);
}

/// Joins the multicast group to which the aggregator sends results.
void Channel::open_group() {
  group_is_open_ = true;
  const auto joined = port_->join_group(protocol_->group());
  if (!joined) {
    protocol_->fail(Status::kRefused,
                    fmt::format("results come by multicast, but {}", joined.error().text),
                    /*lost_aggregator=*/0);
  }
  if (!joined || *joined) return;  // This port cannot join, so open a socket for the group.
  io::UdpPortConfig config;
  config.local.port = protocol_->group().port;
  // Join on the interface that leads to the aggregator.
  config.multicast =
      io::UdpMulticast{.group = protocol_->group(), .via = port_->local(), .share = true};
  auto opened = io::UdpPort::open(config);
  if (opened) {
    group_port_ = *std::move(opened);
  } else {
    protocol_->fail(Status::kRefused,
                    fmt::format("results come by multicast, but {}", opened.error().text),
                    /*lost_aggregator=*/0);
  }
}

void Channel::add_to(io::WaitSet& waits) {
  expects_packets_ = false;
  waits.add(*queue_.wait_source(), expects_packets_);
  if (group_port_ != nullptr) waits.add(*group_port_->queue(0).wait_source(), expects_packets_);
}

void Channel::wait(Duration at_most) {
  expects_packets_ = true;
  if (group_port_ != nullptr) {
    group_port_->queue(0).wait(std::min(at_most, kGroupSleepMax));
  } else {
    queue_.wait(at_most);
  }
}

Duration Channel::nap(Instant now) {
  return nap_policy_.next(protocol_->progress(), protocol_->window(),
                          protocol_->straggler_timeout(), now);
}

uint32_t Channel::send(Instant now) {
  uint32_t count = 0;
  while (count < engine::kBurstPackets) {
    std::byte* bytes = send_bytes_.data() + size_t{count} * packet_bytes_;
    const Outgoing packet = protocol_->next_packet({bytes, packet_bytes_}, now);
    if (packet.size_bytes == 0) break;
    TRIB_ASSERT(packet.stored_bytes == packet.size_bytes);  // No tensor here is elided.
    sending_[count++] = {bytes, packet.size_bytes, packet.to};
  }
  queue_.transmit(std::span(sending_).first(count));
  return count;
}

/// Counts this channel at the gate while it has new packets, and holds them back if more urgent
/// ones come first.
void Channel::tell_gate() {
  if (urgency_.gate == nullptr) return;
  protocol_->hold(!urgency_.gate->is_open(urgency_.priority));
  const bool has_new = protocol_->has_new_packets();
  if (has_new == at_gate_) return;
  at_gate_ = has_new;
  if (has_new) {
    urgency_.gate->enter(urgency_.priority);
  } else if (urgency_.gate->leave(urgency_.priority)) {
    owner_.on_gate_open(urgency_.priority);
  }
}

/// Reports a new phase and the parts that are done. Other threads see the new snapshot first.
void Channel::notify_owner() {
  const auto done = std::partition(in_work_.begin(), in_work_.end(),
                                   [](const Part* part) { return !part->transfer.done; });
  const bool new_phase = protocol_->phase() != reported_phase_;
  if (done == in_work_.end() && !new_phase) return;
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = make_snapshot();
  }
  reported_phase_ = protocol_->phase();
  if (new_phase) owner_.on_phase(*this);
  if (done != in_work_.end()) owner_.on_done(std::span(done, in_work_.end()));
  in_work_.erase(done, in_work_.end());
}

void Channel::publish_progress() {
  const Progress progress = protocol_->progress();
  progress_submitted_.store(progress.submitted, std::memory_order_relaxed);
  progress_heard_.store(progress.heard, std::memory_order_relaxed);
}

Channel::Snapshot Channel::make_snapshot() const {
  return {.phase = protocol_->phase(),
          .status = protocol_->status(),
          .text = protocol_->status_text(),
          .lost_aggregator = protocol_->lost_aggregator(),
          .window = protocol_->window(),
          .gradients = protocol_->gradients(),
          .narrow_gradients = protocol_->narrow_gradients(),
          .job_window = protocol_->job_window(),
          .channels = protocol_->channels(),
          .straggler_timeout = protocol_->straggler_timeout(),
          .counters = protocol_->counters(),
          .permanent_stragglers = protocol_->permanent_stragglers(),
          .refusal = protocol_->refusal(),
          .redirection = protocol_->redirection()};
}

}  // namespace tributary::host
