// SPDX-License-Identifier: Apache-2.0
#include "engine/model/model_machine.h"

#include <algorithm>

namespace tributary::engine {

using memory::RmwKind;
using microcode::Accumulate;
using microcode::FramePool;
using microcode::Xtxn;
using microcode::XtxnKind;

namespace {

/// Frames of the first pool. Each further pool is as large as all earlier ones together.
constexpr uint32_t kFramesFirst = 64;

}  // namespace

ModelMachine::ModelMachine(EventCore& core, const Parameters& parameters,
                           const memory::SharedMemory& memory, ThreadKeeper& keeper)
    : core_(core),
      parameters_(parameters),
      keeper_(keeper),
      exact_(parameters.fidelity == Fidelity::kExact),
      instruction_time_(parameters.instruction_time()),
      timing_(parameters, memory),
      packets_(2 * parameters.packet_buffer_packets, parameters.packet_bytes_max) {
  // If a PPE has no more threads than an instruction has cycles, every thread has an issue slot.
  if (parameters.threads_each > parameters.instruction_cycles) {
    issue_slots_.resize(parameters.ppe_count);
  }
}

ModelMachine::~ModelMachine() {
  for (const auto& post : posts_) post->complete_ = true;  // Abandoned together with the machine.
}

uint64_t ModelMachine::overflow_count() const {
  uint64_t count = timing_.overflow_count();
  for (const SlotLedger& slots : issue_slots_) count += slots.overflow_count();
  return count;
}

// --- Starting threads ---------------------------------------------------------------------------

void ModelMachine::begin_start(ModelThread* thread) {
  TRIB_ASSERT(current_ == nullptr && !starting_);
  starting_ = true;
  meter_->name({});
  current_ = thread;
  instruction_at_ = core_.now();
}

void ModelMachine::end_start(const ModelThread* thread) {
  TRIB_ASSERT(thread == nullptr || !thread->control.finished());  // Else: packet ignored.
  starting_ = false;
  meter_->end_naming();
  current_ = nullptr;
}

FramePool& ModelMachine::frame_pool() {
  uint32_t frames = 0;
  for (auto pool = frames_.rbegin(); pool != frames_.rend(); ++pool) {
    if ((*pool)->free_count() > 0) return **pool;
    frames = frames == 0 ? kFramesFirst : frames * 2;
  }
  frames_.push_back(std::make_unique<FramePool>(std::max(frames, kFramesFirst)));
  return *frames_.back();
}

microcode::ThreadControl& ModelMachine::thread_control() {
  if (!starting_) return current().control;  // The current thread calls a subroutine.
  if (current_ == nullptr || !current_->control.finished()) {
    TRIB_ASSERT(current_ == nullptr || !current_->has_packet);  // One thread for each packet.
    current_ = &keeper_.new_timer_thread();
  }
  return current_->control;
}

// --- Running threads ----------------------------------------------------------------------------

void ModelMachine::schedule(Instant at, EventTarget& target, const void* argument) {
  core_.schedule(at, EventPriority::kMachine, target, reinterpret_cast<uintptr_t>(argument));
}

void ModelMachine::ResumeEvent::on_event(uint64_t argument) {
  auto& thread = *reinterpret_cast<ModelThread*>(static_cast<uintptr_t>(argument));
  if (thread.control.finished()) {
    machine.keeper_.thread_ended(thread);
  } else {
    machine.run(thread);
  }
}

void ModelMachine::RequestEvent::on_event(uint64_t argument) {
  machine.on_request(*reinterpret_cast<ModelRequest*>(static_cast<uintptr_t>(argument)));
}

void ModelMachine::parse_headers(ModelThread& thread) {
  const Instant at = thread.local_at;
  thread.local_at = run_instructions(thread, at, parameters_.header_instructions);
  thread.parts[LatencyPart::kInstructions] += thread.local_at - at;
}

void ModelMachine::pass_egress(ModelThread& thread) {
  thread.local_at = run_instructions(thread, thread.local_at, parameters_.egress_instructions);
}

void ModelMachine::run(ModelThread& thread) {
  TRIB_ASSERT(current_ == nullptr);
  const Instant now = core_.now();
  if (thread.waiting_on != nullptr) {
    if (thread.local_at > now) {  // The reply came while the thread still executed instructions.
      schedule(thread.local_at, resume_, &thread);
      return;
    }
    if (trace_.on()) [[unlikely]] {
      account_with_trace(thread, now);
    } else {
      thread.waiting_on->account(thread.waits_since, now);
    }
    thread.waiting_on = nullptr;
    thread.control.set_waiting(false);
  }
  thread.local_at = std::max(thread.local_at, now);
  instruction_at_ = thread.local_at;
  current_ = &thread;
  meter_->resume(thread.position);
  thread.control.run();
  meter_->pause();
  current_ = nullptr;

  deletes_answered_ -= thread.deletes_answered;
  thread.deletes_answered = std::exchange(thread.deletes_issued, 0);
  if (!thread.control.finished()) {
    keeper_.thread_paused(thread);
  } else if (thread.local_at > now) {
    schedule(thread.local_at, resume_, &thread);
  } else {
    keeper_.thread_ended(thread);
  }
}

void ModelMachine::wait_for(ModelRequest& request) {
  ModelThread& thread = current();
  TRIB_ASSERT(&request.thread_ == &thread && thread.waiting_on == nullptr);
  thread.waiting_on = &request;
  thread.waits_since = thread.local_at;
  thread.control.set_waiting(true);
  if (request.complete_) schedule(request.done_at_, resume_, &thread);
}

void ModelMachine::on_request(ModelRequest& request) {
  if (!exact_) {
    if (!request.advance_far()) {
      schedule(request.next_at_, request_, &request);
    } else if (request.thread_.waiting_on == &request) {
      schedule(request.done_at_, resume_, &request.thread_);
    }
    return;
  }
  if (!request.answered_) {
    meter_->name(request.thread_.position);
    request.answered_ = request.advance(core_.now());
    meter_->end_naming();
    if (!request.is_post_) {
      schedule(request.next_at_, request_, &request);
      return;
    }
    request.complete_ = true;
    std::erase_if(posts_, [&](const auto& post) { return post.get() == &request; });
    return;
  }
  request.complete_ = true;
  request.done_at_ = core_.now();
  if (request.thread_.waiting_on == &request) run(request.thread_);
}

Instant ModelMachine::issue(const ModelThread& thread, Instant at, uint32_t count) {
  Instant done_at = at;
  thread.ppe_threads.for_each_ppe([&](uint32_t ppe) {
    const Instant issued_at = issue_slots_[ppe].reserve(at, parameters_.clock_period * count);
    done_at = std::max(done_at, issued_at);
  });
  return done_at;
}

template <class Access>
MemoryReply ModelMachine::price(ModelThread& thread, Access&& access) {
  const MemoryTiming::Counters& counted = timing_.counters();
  const Duration busy = counted.busy;
  const uint64_t bytes = counted.bytes;
  const bool is_timer = !thread.has_packet;
  if (is_timer) timing_.set_for_timer(true);
  const MemoryReply reply = access();
  if (is_timer) timing_.set_for_timer(false);
  thread.bank_busy += counted.busy - busy;
  thread.crossbar_bytes += counted.bytes - bytes;
  return reply;
}

MemoryReply ModelMachine::price(ModelThread& thread, const Xtxn& xtxn, Instant at) {
  return price(thread, [&] { return timing_.access(xtxn, at, thread.packet.train); });
}

MemoryReply ModelMachine::price(ModelThread& thread, RmwKind kind, const void* target,
                                uint32_t size_bytes, Instant at) {
  return price(thread,
               [&] { return timing_.access(kind, target, size_bytes, at, thread.packet.train); });
}

// --- For programs -------------------------------------------------------------------------------

void ModelMachine::instruction(const microcode::Instruction& mark, const Place& place) {
  if (starting_) return;  // A program may read a packet before it starts a thread.
  ModelThread& thread = current();
  meter_->begin(mark, thread.packet.train, place);
  meter_->count_step(thread.steps, place);
  thread.position = {.mark = mark.name, .place = place};
  instruction_at_ = thread.local_at;
  if (trace_.on()) [[unlikely]]
    trace_instruction(mark);
  thread.local_at = run_instructions(thread, thread.local_at, 1);
  thread.parts[LatencyPart::kInstructions] += thread.local_at - instruction_at_;
}

void ModelMachine::write_head(uint32_t offset_bytes, std::span<const std::byte> bytes,
                              const Place& place) {
  TRIB_REQUIRE_AT(!current().packet_ended, microcode::rule::kEndOnce, place);
  TRIB_REQUIRE_AT(offset_bytes + bytes.size() <= head(place).size(), microcode::rule::kWriteHead,
                  place);
  const PacketHandle stored = current_->packet.stored;
  packets_.write_head(stored, offset_bytes, bytes);
  access_meter().write_lmem(packets_.bytes(stored).data() + offset_bytes,
                            static_cast<uint32_t>(bytes.size()), place);
}

void ModelMachine::push_head(std::span<const std::byte> bytes, const Place& place) {
  TRIB_REQUIRE_AT(!current().packet_ended, microcode::rule::kEndOnce, place);
  ArrivedPacket& packet = current_->packet;
  TRIB_REQUIRE_AT(arrived_as_frame() && bytes.size() <= packets_.head_offset(packet.stored),
                  microcode::rule::kPushHead, place);
  packets_.push_head(packet.stored, bytes);
  packet.size_bytes += static_cast<uint32_t>(bytes.size());
  access_meter().write_lmem(packets_.bytes(packet.stored).data(),
                            static_cast<uint32_t>(bytes.size()), place);
}

void ModelMachine::pop_head(uint32_t count, const Place& place) {
  TRIB_REQUIRE_AT(!current().packet_ended, microcode::rule::kEndOnce, place);
  TRIB_REQUIRE_AT(arrived_as_frame() && count <= head(place).size(), microcode::rule::kPopHead,
                  place);
  ArrivedPacket& packet = current_->packet;
  packets_.pop_head(packet.stored, count);
  packet.size_bytes -= count;
}

microcode::MeteredHead ModelMachine::head(const Place& place) const {
  const PacketHandle handle = packet().stored;
  const std::span<const std::byte> stored = packets_.bytes(handle);
  const uint32_t room =
      arrived_as_frame() ? packets_.head_bytes_max(handle) : parameters_.head_payload_bytes();
  // A program may read a packet before it starts a thread.
  return {stored.first(std::min<size_t>(stored.size(), room)), packets_.head_offset(handle),
          starting_ ? nullptr : meter_.get(), place};
}

bool ModelMachine::has_values(const ModelThread& thread) const {
  if (!elided_) return true;
  if (!lanes_seen_) return false;
  const ArrivedPacket& packet = thread.packet;
  return !thread.has_packet || packets_.bytes(packet.stored).size() >= packet.size_bytes;
}

OutgoingPacket* ModelMachine::add_outgoing(std::span<const std::byte> payload, bool whole) {
  ModelThread& thread = current();
  const bool elide = !whole && payload.size() > kHeadBytes && !has_values(thread);
  if (payload.size() > parameters_.packet_bytes_max) {
    counters_.sent_too_long += thread.packet.train;
    return nullptr;
  }
  const auto stored = packets_.store(elide ? payload.first(kHeadBytes) : payload);
  if (!stored) {
    counters_.sent_no_room += thread.packet.train;
    return nullptr;
  }
  counters_.sent += thread.packet.train;
  if (thread.outbox_count == thread.outbox.size()) thread.outbox.emplace_back();
  OutgoingPacket& packet = thread.outbox[thread.outbox_count++];
  packet.stored = *stored;
  packet.size_bytes = static_cast<uint32_t>(payload.size());
  packet.destinations.clear();
  return &packet;
}

void ModelMachine::send(std::span<const std::byte> payload,
                        std::span<const Endpoint> destinations) {
  OutgoingPacket* packet = add_outgoing(payload, /*whole=*/false);
  if (packet != nullptr) packet->destinations.assign(destinations.begin(), destinations.end());
}

void ModelMachine::send_small(std::span<const std::byte> payload, const Endpoint& destination) {
  TRIB_ASSERT(payload.size() <= kHeadBytes);
  OutgoingPacket* packet = add_outgoing(payload, /*whole=*/true);
  if (packet != nullptr) packet->destinations.assign(1, destination);
}

void ModelMachine::begin_xtxn(const microcode::Xtxn& xtxn, const Place& place) {
  check_xtxn(xtxn, place);
  meter_->issue_xtxn(place);
  ModelThread& thread = current();
  meter_->count_step(thread.steps, place);
  xtxns_[static_cast<uint32_t>(xtxn.kind)] += MemoryTiming::requests_of(xtxn, thread.packet.train);
}

void ModelMachine::end_packet(const Place& place) {
  TRIB_REQUIRE_AT(current().has_packet, microcode::rule::kEndInProcess, place);
  TRIB_REQUIRE_AT(!current_->packet_ended, microcode::rule::kEndOnce, place);
  current_->packet_ended = true;
}

void ModelMachine::forward(const Place& place) {
  end_packet(place);
  current_->forwarded = true;
  counters_.forwarded += current_->packet.train;
}

void ModelMachine::drop(uint32_t reason, const Place& place) {
  end_packet(place);
  if (trace_.on()) [[unlikely]]
    trace_drop(reason);
  counters_.dropped += current_->packet.train;
}

ModelMachine::AccumulateLoop ModelMachine::accumulate(int32_t* lanes, uint32_t offset_bytes,
                                                      uint32_t count, Accumulate how,
                                                      microcode::LaneWidth width) {
  return AccumulateLoop(*this, lanes, offset_bytes, count, how, width);
}

ModelMachine::FinishLoop ModelMachine::finish_lanes(int32_t* lanes, uint32_t count,
                                                    microcode::ResultLanes result) {
  return FinishLoop(*this, lanes, count, result);
}

}  // namespace tributary::engine
