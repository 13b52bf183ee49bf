// SPDX-License-Identifier: Apache-2.0
#include "net/link.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "net/network.h"

namespace tributary::net {
namespace {

__extension__ using Wide = unsigned __int128;

/// Bits take ticks: 8 bits x 10^11 ticks a second.
constexpr uint64_t kTicksPerSecond = 1'000'000'000'000 / kPicosecondsPerTick;
constexpr uint64_t kTickBitsPerByte = 8 * kTicksPerSecond;
constexpr uint32_t kRingStart = 8;

}  // namespace

Link::Link(Network& network, uint32_t id, const LinkEnds& ends, Node& receiver,
           const LinkConfig& config, uint64_t seed)
    : network_(network),
      core_(network.core()),
      receiver_(receiver),
      propagation_(config.propagation),
      ticks_per_byte_(kTickBitsPerByte % config.rate_bits_per_s == 0
                          ? static_cast<int64_t>(kTickBitsPerByte / config.rate_bits_per_s)
                          : 0),
      ring_(kRingStart),
      ring_mask_(kRingStart - 1),
      train_(network.train()),
      ends_(ends),
      id_(id),
      draws_(seed),
      config_(config) {
  queue_max_ = time_of_slowly(config.queue_bytes_max);
  ecn_ = time_of_slowly(config.ecn_bytes);
  if (train_ > 1) spreads_.resize(ring_.size());
  set_faults(config.faults);
}

Duration Link::time_of_slowly(uint64_t wire_bytes) const {
  const Wide rate = config_.rate_bits_per_s;
  const Wide ticks = (Wide{wire_bytes} * kTickBitsPerByte + rate - 1) / rate;
  return Duration::from_ticks(static_cast<int64_t>(std::min<Wide>(ticks, INT64_MAX)));
}

Duration Link::time_of(uint64_t wire_bytes) {
  if (ticks_per_byte_ != 0) {
    return Duration::from_ticks(static_cast<int64_t>(wire_bytes) * ticks_per_byte_);
  }
  if (wire_bytes != sized_bytes_) {
    sized_bytes_ = wire_bytes;
    sized_time_ = time_of_slowly(wire_bytes);
  }
  return sized_time_;
}

uint64_t Link::bytes_in(Duration time) const {
  if (time <= Duration()) return 0;
  // A partly sent byte still counts. Times were rounded up, so round the bytes down.
  const Wide bits = Wide{static_cast<uint64_t>(time.ticks())} * config_.rate_bits_per_s;
  const Wide round_up = ticks_per_byte_ != 0 ? kTickBitsPerByte - 1 : 0;
  return static_cast<uint64_t>((bits + round_up) / kTickBitsPerByte);
}

Duration Link::train_spread(uint32_t size_bytes) const {
  return time_of_slowly(uint64_t{size_bytes + kWireOverheadBytes} * (train_ - 1));
}

void Link::send(PacketRef packet, Duration spread) {
  const Instant now = core_.now();
  const uint64_t wire_bytes = wire_bytes_of(*packet);
  const Duration all = time_of(wire_bytes);
  const Duration one = train_ == 1 ? all : all / train_;
  const Instant first_arrived_at = now - spread;
  const Instant starts_at = std::max(first_arrived_at, free_at_);
  const Instant leaves_at = std::max(starts_at + all, now + one);
  const Duration depth = leaves_at - now;
  if (depth > queue_max_ && free_at_ > first_arrived_at) [[unlikely]] {
    counters_.tail_dropped++;
    return;
  }
  if (depth - one > ecn_) [[unlikely]]
    mark(packet);
  peak_ = std::max(peak_, depth);
  free_at_ = leaves_at;
  packets_++;
  bytes_ += wire_bytes;
  const Duration spread_out = train_ == 1 ? Duration() : leaves_at - (starts_at + one);
  InFlight sent{leaves_at + propagation_, std::move(packet)};
  if (special_) [[unlikely]] {
    return propagate_with_faults(std::move(sent), spread_out);
  }
  propagate(std::move(sent), spread_out);
}

void Link::mark(PacketRef& packet) {
  if (packet.shared()) packet = network_.packets().copy(*packet);
  packet->congestion_experienced = true;
  counters_.marked++;
}

/// Adds a packet after all packets in flight.
void Link::propagate(InFlight sent, Duration spread) {
  sent.arrives_at = std::max(sent.arrives_at, arrives_last_);
  arrives_last_ = sent.arrives_at;
  if (ring_end_ - ring_begin_ > ring_mask_) [[unlikely]]
    grow_ring();
  if (ring_begin_ == ring_end_) {
    core_.schedule(sent.arrives_at, EventPriority::kArrival, *this, kFirstInRing);
  }
  const uint32_t place = ring_end_++ & ring_mask_;
  if (train_ > 1) [[unlikely]]
    spreads_[place] = spread;
  ring_[place] = std::move(sent);
}

void Link::grow_ring() {
  const uint32_t mask = ring_mask_ * 2 + 1;
  std::vector<InFlight> ring(mask + 1);
  std::vector<Duration> spreads(train_ > 1 ? mask + 1 : 0);
  for (uint32_t i = ring_begin_; i != ring_end_; i++) {
    ring[i & mask] = std::move(ring_[i & ring_mask_]);
    if (train_ > 1) spreads[i & mask] = spreads_[i & ring_mask_];
  }
  ring_ = std::move(ring);
  spreads_ = std::move(spreads);
  ring_mask_ = mask;
}

void Link::on_event(uint64_t argument) {
  if (argument != kFirstInRing) [[unlikely]] {
    held_back_free_.push_back(static_cast<uint32_t>(argument));
    return deliver(std::move(held_back_[argument].packet), held_back_[argument].spread);
  }
  const uint32_t place = ring_begin_++ & ring_mask_;
  PacketRef packet = std::move(ring_[place].packet);
  const Duration spread = train_ > 1 ? spreads_[place] : Duration();
  if (ring_begin_ != ring_end_) {
    const InFlight& next = ring_[ring_begin_ & ring_mask_];
    next.packet.prefetch();
    core_.schedule(next.arrives_at, EventPriority::kArrival, *this, kFirstInRing);
  }
  deliver(std::move(packet), spread);
}

void Link::lose(uint64_t& count, const Packet& packet) {
  count++;
  counters_.lost_bytes += wire_bytes_of(packet);
}

void Link::deliver(PacketRef packet, Duration spread) {
  if (cut_) [[unlikely]]
    return lose(counters_.cut, *packet);
  network_.deliver(*this, receiver_, std::move(packet), spread);
}

// --- Faults -------------------------------------------------------------------------------------

void Link::propagate_with_faults(InFlight sent, Duration spread) {
  if (tap_) tap_(sent.arrives_at - propagation_, *sent.packet);
  if (cut_) return lose(counters_.cut, *sent.packet);
  if (!faulty_) return propagate(std::move(sent), spread);
  if (loses_next()) return lose(counters_.lost, *sent.packet);
  if (corrupts(sent.packet)) return;
  uint32_t copies = 1;
  if (draws_.chance(config_.faults.duplicate)) {
    counters_.duplicated++;
    counters_.duplicated_bytes += wire_bytes_of(*sent.packet);
    copies++;
  }
  for (uint32_t i = 0; i < copies; i++) {
    InFlight one = sent;
    one.arrives_at = one.arrives_at + drawn_below(config_.faults.jitter);
    if (draws_.chance(config_.faults.reorder)) {
      hold_back(std::move(one), spread);
    } else {
      propagate(std::move(one), spread);
    }
  }
}

bool Link::loses_next() {
  const LinkFaults& faults = config_.faults;
  if (faults.loss_run <= 1) return draws_.chance(faults.loss);
  // A run starts with probability `enter` and ends with 1 / loss_run. The share of time in runs is
  // enter / (enter + 1 / loss_run) = loss.
  const double enter = faults.loss / (faults.loss_run * (1 - faults.loss));
  const double change = in_loss_run_ ? 1 / faults.loss_run : enter;
  if (draws_.chance(change)) in_loss_run_ = !in_loss_run_;
  return in_loss_run_;
}

/// Draws whether a bit flips. @return whether the packet is lost by it.
bool Link::corrupts(PacketRef& packet) {
  const LinkFaults& faults = config_.faults;
  if (!draws_.chance(faults.corrupt)) return false;
  counters_.corrupted++;
  const auto end = std::min(static_cast<uint32_t>(packet->stored.size()), faults.flip_end);
  if (!draws_.chance(faults.undetected) || faults.flip_begin >= end) {
    counters_.lost_bytes += wire_bytes_of(*packet);
    return true;
  }
  counters_.undetected++;
  const uint32_t byte = faults.flip_begin + draws_.below(end - faults.flip_begin);
  const uint32_t bit = draws_.below(8);
  packet = network_.packets().copy(*packet);
  packet->stored[byte] ^= std::byte{1} << bit;
  return false;
}

void Link::hold_back(InFlight sent, Duration spread) {
  counters_.reordered++;
  sent.arrives_at =
      sent.arrives_at + drawn_below(config_.faults.reorder_max) + Duration::from_ticks(1);
  uint32_t index = static_cast<uint32_t>(held_back_.size());
  if (held_back_free_.empty()) {
    held_back_.emplace_back();
  } else {
    index = held_back_free_.back();
    held_back_free_.pop_back();
  }
  core_.schedule(sent.arrives_at, EventPriority::kArrival, *this, index);
  held_back_[index] = {std::move(sent.packet), spread};
}

Duration Link::drawn_below(Duration bound) {
  return Duration::from_ticks(
      static_cast<int64_t>(draws_.unit() * static_cast<double>(bound.ticks())));
}

void Link::set_faults(const LinkFaults& faults) {
  TRIB_ASSERT(check(faults).has_value());
  config_.faults = faults;
  faulty_ = faults != LinkFaults{};
  in_loss_run_ = false;
  update_special();
}

void Link::set_cut(bool cut) {
  cut_ = cut;
  update_special();
}

void Link::set_tap(Tap tap) {
  tap_ = std::move(tap);
  update_special();
}

void Link::update_special() { special_ = cut_ || faulty_ || tap_ != nullptr; }

// --- Counters and queue -------------------------------------------------------------------------

LinkCounters Link::counters() const {
  LinkCounters all = counters_;
  all.packets = packets_;
  for (uint64_t* count : {&all.packets, &all.tail_dropped, &all.marked, &all.lost, &all.corrupted,
                          &all.undetected, &all.duplicated, &all.reordered, &all.cut}) {
    *count *= train_;
  }
  all.bytes = bytes_;
  all.queue_bytes_peak = bytes_in(peak_);
  return all;
}

uint64_t Link::queue_bytes(Instant now) const { return bytes_in(free_at_ - now); }

}  // namespace tributary::net
