// SPDX-License-Identifier: Apache-2.0
#include "tests/tofino/switchml/bed.h"

#include <algorithm>
#include <stdexcept>

namespace tributary::tofino::testing {
namespace {

/// Propagation delay from worker to switch, or back.
constexpr Duration kPropagation = microseconds(1);
/// Retransmission timeout, well above a round trip with jitter.
constexpr Duration kTimeout = microseconds(100);

}  // namespace

FrameAddress worker_address(uint32_t worker) {
  return {0x0200'0000'0100ULL + worker, 0x0a00'0100 + worker, 4000};
}

SwitchmlSession session_of(uint32_t workers, uint32_t pool_slots) {
  SwitchmlSession session{.workers = {}, .pool_slots = pool_slots};
  for (uint32_t i = 0; i < workers; i++) {
    const FrameAddress address = worker_address(i);
    session.workers.push_back({worker_port(i), address.mac, address.ip});
  }
  return session;
}

std::vector<std::byte> frame_of(uint32_t worker, const SwitchmlMessage& message) {
  return udp_frame(worker_address(worker), {kSwitchMac, kSwitchIp, kSwitchmlPort},
                   switchml_payload(message));
}

SwitchmlBed::SwitchmlBed(const SwitchmlVariant& variant, uint32_t workers, uint32_t pool_slots,
                         uint64_t seed, const BedFaults& faults)
    : elements_(variant.elements), faults_(faults), draws_(seed), workers_(workers) {
  auto device = SwitchmlSwitch::make(variant, *this, Payload::kCarried, seed);
  if (!device) throw std::runtime_error(device.error().text);
  switch_ = std::make_unique<SwitchmlSwitch>(std::move(*device));
  const auto good = switch_->set_session(session_of(workers, pool_slots));
  if (!good) throw std::runtime_error(good.error().text);
  for (Worker& worker : workers_) worker.slots.resize(pool_slots);
}

void SwitchmlBed::push(Instant at, Event event) {
  events_.emplace(std::pair{at, sequence_++}, std::move(event));
}

void SwitchmlBed::put_on_link(Instant at, Event event) {
  const uint32_t copies = draws_.chance(faults_.duplicate) ? 2 : 1;
  for (uint32_t i = 0; i < copies; i++) {
    if (draws_.chance(faults_.loss)) continue;
    const auto late =
        Duration::from_ticks(draws_.below(static_cast<uint32_t>(faults_.jitter.ticks() + 1)));
    Worker& worker = workers_[event.worker];
    Instant& last = event.kind == Event::Kind::kToSwitch ? worker.up_last : worker.down_last;
    last = std::max(last, at + kPropagation + late);
    push(last, event);
  }
}

void SwitchmlBed::send(Instant at, uint32_t port, PacketView packet) {
  for (const std::byte byte : packet.stored) {
    digest_ = (digest_ ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3ULL;
  }
  digest_ = (digest_ ^ static_cast<uint64_t>(at.since_start().ticks())) * 0x100000001b3ULL;
  put_on_link(at, {.kind = Event::Kind::kToWorker,
                   .worker = port / 4,
                   .frame = {packet.stored.begin(), packet.stored.end()}});
}

void SwitchmlBed::transmit(Instant at, uint32_t worker, uint32_t slot) {
  Slot& state = workers_[worker].slots[slot];
  const auto first = workers_[worker].tensor->begin() + static_cast<int64_t>(state.offset);
  SwitchmlMessage message{.packet_id = static_cast<uint32_t>(state.offset / elements_),
                          .set = state.set,
                          .slot = static_cast<uint16_t>(slot)};
  message.elements.assign(first, first + elements_);
  put_on_link(
      at, {.kind = Event::Kind::kToSwitch, .worker = worker, .frame = frame_of(worker, message)});
  push(at + kTimeout,
       {.kind = Event::Kind::kTimeout, .worker = worker, .slot = slot, .attempt = ++state.attempt});
}

void SwitchmlBed::receive(Instant at, uint32_t worker, const std::vector<std::byte>& frame) {
  const auto udp = parse_udp_frame(frame);
  if (!udp || !udp->ip_checksum_right || !(udp->to == worker_address(worker))) {
    throw std::runtime_error("the switch sent a bad frame");
  }
  const auto message = parse_switchml(udp->payload);
  if (!message) throw std::runtime_error("the switch sent a bad message");
  Worker& self = workers_[worker];
  Slot& slot = self.slots.at(message->slot);
  if (!slot.busy || slot.set != message->set || message->packet_id != slot.offset / elements_) {
    return;  // A duplicate.
  }
  std::copy(message->elements.begin(), message->elements.end(),
            self.result.begin() + static_cast<int64_t>(slot.offset));
  self.done += elements_;
  slot.attempt++;
  slot.offset += uint64_t{elements_} * self.slots.size();
  slot.set = !slot.set;
  slot.busy = slot.offset < self.tensor->size();
  if (slot.busy) transmit(at, worker, message->slot);
}

void SwitchmlBed::handle(Instant at, Event& event) {
  switch (event.kind) {
    case Event::Kind::kToSwitch:
      return switch_->device().arrive(at, worker_port(event.worker),
                                      {event.frame, static_cast<uint32_t>(event.frame.size())});
    case Event::Kind::kToWorker:
      return receive(at, event.worker, event.frame);
    case Event::Kind::kTimeout: {
      const Slot& slot = workers_[event.worker].slots[event.slot];
      if (!slot.busy || slot.attempt != event.attempt) return;
      resent_++;
      return transmit(at, event.worker, event.slot);
    }
  }
}

bool SwitchmlBed::complete() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.done == worker.tensor->size(); });
}

bool SwitchmlBed::reduce(const std::vector<std::vector<int32_t>>& tensors, Duration limit) {
  for (uint32_t w = 0; w < workers_.size(); w++) {
    workers_[w].tensor = &tensors[w];
    workers_[w].result.assign(tensors[w].size(), 0);
    for (uint32_t s = 0; s < workers_[w].slots.size(); s++) {
      Slot& slot = workers_[w].slots[s];
      slot.offset = uint64_t{s} * elements_;
      slot.busy = slot.offset < tensors[w].size();
      if (slot.busy) transmit(Instant{}, w, s);
    }
  }
  while (!complete()) {
    Switch& device = switch_->device();
    const Instant next = events_.empty() ? Instant::never() : events_.begin()->first.first;
    const Instant due = std::min(next, device.next_due());
    if (due > Instant(limit)) return false;
    if (device.next_due() <= next) {
      device.run_until(device.next_due());
      continue;
    }
    Event event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    handle(next, event);
  }
  return true;
}

}  // namespace tributary::tofino::testing
