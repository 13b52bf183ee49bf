// SPDX-License-Identifier: Apache-2.0
// The egress side of a PFE. Packets pass the fabric and the port in the order in which they left
// the reorder engine; between the two, each takes a PPE thread.
#include <algorithm>

#include "engine/model/pfe.h"

namespace tributary::engine {
namespace {

constexpr int64_t kBitsPerByte = 8;
/// Ticks that 1 Gbit/s needs for a bit.
constexpr int64_t kTicksPerBit = nanoseconds(1).ticks();

}  // namespace

Duration Carrier::time_of(uint64_t size_bytes, uint32_t count) const {
  if (!is_limited()) return {};
  const int64_t ticks = static_cast<int64_t>(size_bytes * count) * kBitsPerByte * kTicksPerBit;
  return Duration::from_ticks((ticks + gbit_per_s_ - 1) / gbit_per_s_);
}

Instant Carrier::carry(Instant at, uint64_t size_bytes, uint32_t count) {
  if (!is_limited()) return at;
  const Instant begin = std::max(at, busy_until_);
  busy_until_ = begin + time_of(size_bytes, count);
  used_.add(begin, busy_until_, busy_until_ - begin);
  return busy_until_;
}

void Carrier::note(Instant at, uint64_t size_bytes, uint32_t count) {
  if (!is_limited()) return;
  const Duration time = time_of(size_bytes, count);
  used_.add(at, at + time, time);
}

// --- Fabric -------------------------------------------------------------------------------------

void PfeCore::depart(EgressPacket packet) {
  packet.entered_at = core_.now();
  const uint32_t frame = frame_bytes(parameters_, packet.layer, packet.size_bytes);
  const Instant passed_at = fabric_.carry(core_.now(), frame, packet.train);
  egress_.push_back(std::move(packet));
  core_.schedule(passed_at, EventPriority::kMachine, fabric_event_, 0);
}

void PfeCore::FabricEvent::on_event(uint64_t) {
  pfe.egress_ready_count_++;
  pfe.dispatch();
}

// --- The pass through a PPE thread ---------------------------------------------------------------

void PfeCore::start_egress() {
  EgressPacket& packet = egress_[egress_started_count_];
  egress_started_count_++;
  egress_ready_count_--;
  ModelThread& thread = take_thread(/*has_packet=*/false);
  thread.packet.train = packet.train;
  take_ppe_threads(thread, packet.train);
  counted_.egress_threads += packet.train;
  machine_.pass_egress(thread);
  egress_threads_.push_back({thread.number, egress_left_count_ + egress_started_count_ - 1});
  core_.schedule(thread.local_at, EventPriority::kMachine, egress_event_, thread.number);
}

void PfeCore::EgressEvent::on_event(uint64_t argument) {
  pfe.end_egress(static_cast<uint32_t>(argument));
}

void PfeCore::end_egress(uint32_t thread_number) {
  ModelThread& thread = *threads_[thread_number];
  const auto pass = std::find_if(egress_threads_.begin(), egress_threads_.end(),
                                 [&](const EgressPass& p) { return p.thread == thread_number; });
  egress_[pass->packet - egress_left_count_].is_done = true;
  *pass = egress_threads_.back();
  egress_threads_.pop_back();
  note_span(thread, /*for_packet=*/true);
  give_ppe_threads(thread);
  free_thread(thread);
  // Packets keep their order, so a packet waits for those before it.
  for (; egress_sent_count_ < egress_started_count_ && egress_[egress_sent_count_].is_done;
       egress_sent_count_++) {
    const EgressPacket& packet = egress_[egress_sent_count_];
    const uint32_t frame = frame_bytes(parameters_, packet.layer, packet.size_bytes);
    const Instant left_at = ports_out_.carry(core_.now(), cable_bytes(frame), packet.train);
    core_.schedule(left_at, EventPriority::kMachine, port_event_, 0);
  }
  dispatch();
}

// --- Port ---------------------------------------------------------------------------------------

void PfeCore::PortEvent::on_event(uint64_t) { pfe.leave_port(); }

void PfeCore::leave_port() {
  const EgressPacket packet = egress_.front();
  egress_.pop_front();
  egress_left_count_++;
  egress_started_count_--;
  egress_sent_count_--;
  const Duration took = core_.now() - packet.entered_at;
  counted_.egress_time += took * packet.train;
  counted_.egress_time_max = std::max(counted_.egress_time_max, took);
  counted_.left += packet.train;
  const std::span<const std::byte> stored = machine_.packets().bytes(packet.stored);
  if (packet.number != 0) {
    sink_.forward(stored, packet.size_bytes, packet.destination, packet.number);
  } else {
    sink_.send(stored, packet.size_bytes, std::span(&packet.destination, 1));
  }
  machine_.packets().release(packet.stored);
}

}  // namespace tributary::engine
