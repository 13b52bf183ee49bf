// SPDX-License-Identifier: Apache-2.0
#include "engine/model/pfe.h"

#include <algorithm>

#include "base/assert.h"
#include "microcode/hash.h"

namespace tributary::engine {
namespace {

/// Returns the flow of a packet's source. Packets of one source keep their order.
uint64_t flow_of(const Endpoint& source) {
  return microcode::FieldHash().include_bytes(source.address).include(source.port).value();
}

}  // namespace

PfeCore::PfeCore(EventCore& core, const Parameters& parameters, memory::SharedMemory& memory,
                 PfeSink& sink)
    : machine_(core, parameters, memory, *this),
      core_(core),
      parameters_(parameters),
      sink_(sink),
      dispatch_({.ppe_count = parameters.ppe_count, .threads_each = parameters.threads_each}),
      reorder_({.packet_count = parameters.packet_buffer_packets,
                .queue_count = parameters.reorder_queues}),
      has_egress_(parameters.models_egress()),
      ports_in_(parameters.port_gbit_per_s, core.now()),
      fabric_(parameters.fabric_gbit_per_s, core.now()),
      ports_out_(parameters.port_gbit_per_s, core.now()),
      measured_from_(core.now()),
      threads_used_(core.now()),
      issue_used_(core.now()),
      banks_used_(core.now()),
      crossbar_used_(core.now()),
      active_(core.now()),
      mark_(mark_now()) {
  TRIB_ASSERT(parameters.train_max <= parameters.thread_count());
}

// --- Arriving -----------------------------------------------------------------------------------

void PfeCore::arrive(std::span<const std::byte> stored, uint32_t size_bytes, const Endpoint& source,
                     uint32_t train, PacketLayer layer) {
  TRIB_ASSERT(stored.size() <= size_bytes && train >= 1 && train <= parameters_.thread_count());
  counted_.arrived += train;
  arrival_count_++;
  ports_in_.note(core_.now(), cable_bytes(frame_bytes(parameters_, layer, size_bytes)), train);
  if (size_bytes > parameters_.packet_bytes_max) {
    counted_.refused_too_long += train;
    if (trace_.on()) trace_refusal(arrival_count_, "too long");
    return;
  }
  const auto handle = machine_.packets().store(stored);
  const auto ticket = handle ? reorder_.arrive(flow_of(source), train) : std::nullopt;
  if (!ticket) {
    counted_.refused_full += train;
    if (handle) machine_.packets().release(*handle);
    if (trace_.on()) trace_refusal(arrival_count_, "packet buffer full");
    return;
  }
  if (stored.size() < size_bytes) machine_.set_elided();
  waiting_.push_back({.stored = *handle,
                      .ticket = *ticket,
                      .size_bytes = size_bytes,
                      .train = train,
                      .layer = layer,
                      .source = source,
                      .arrived_at = core_.now(),
                      .number = arrival_count_});
  if (trace_.on()) [[unlikely]]
    trace_arrival(waiting_.back(), stored);
  counted_.packet_buffer_peak =
      std::max<uint64_t>(counted_.packet_buffer_peak, reorder_.inside_count());
  core_.schedule(core_.now() + parameters_.ingress_latency, EventPriority::kMachine, ingress_event_,
                 0);
}

void PfeCore::IngressEvent::on_event(uint64_t) {
  pfe.ready_count_++;
  pfe.dispatch();
}

// --- Dispatch -----------------------------------------------------------------------------------

void PfeCore::dispatch() {
  if (dispatching_) return;  // The call in progress handles whatever has become free.
  dispatching_ = true;
  for (;;) {
    const uint32_t free = parameters_.thread_count() - dispatch_.busy_count();
    if (!timers_waiting_.empty()) {
      ModelThread& thread = *timers_waiting_.front();
      if (free < thread.packet.train) break;
      timers_waiting_.pop_front();
      start_timer(thread);
    } else if (egress_ready_count_ > 0) {
      if (free < egress_[egress_started_count_].train) break;
      start_egress();
    } else if (ready_count_ > 0 && free >= waiting_.front().train) {
      start_packet();
    } else {
      break;
    }
  }
  dispatching_ = false;
  arm_timers();
}

void PfeCore::take_ppe_threads(ModelThread& thread, uint32_t count) {
  if (dispatch_.busy_count() == 0) active_since_ = core_.now();
  dispatch_.start(count, thread.ppe_threads);
  counted_.threads_peak = std::max<uint64_t>(counted_.threads_peak, dispatch_.busy_count());
  thread.started_at = core_.now();
  thread.local_at = core_.now();
  thread.on_ppe = true;
  if (trace_.on()) [[unlikely]]
    trace_start(thread);
}

void PfeCore::give_ppe_threads(ModelThread& thread) {
  thread.on_ppe = false;
  dispatch_.finish(thread.ppe_threads);
  if (dispatch_.busy_count() == 0) note_active(active_);
}

ModelThread& PfeCore::take_thread(bool has_packet) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(threads_.size()));
    threads_.push_back(std::make_unique<ModelThread>());
    threads_.back()->number = free_.back();
  }
  ModelThread& thread = *threads_[free_.back()];
  free_.pop_back();
  thread.has_packet = has_packet;
  thread.packet = {};
  thread.ppe_threads.clear();
  thread.packet_ended = false;
  thread.forwarded = false;
  thread.outbox_count = 0;
  thread.position = {};
  thread.parts = {};
  thread.instructions = 0;
  thread.steps = 0;
  thread.gradients = 0;
  thread.bank_busy = Duration();
  thread.crossbar_bytes = 0;
  return thread;
}

void PfeCore::free_thread(ModelThread& thread) { free_.push_back(thread.number); }

void PfeCore::start_packet() {
  ModelThread& thread = take_thread(/*has_packet=*/true);
  thread.packet = waiting_.front();
  waiting_.pop_front();
  ready_count_--;
  const Instant now = core_.now();
  take_ppe_threads(thread, thread.packet.train);
  counted_.packet_threads += thread.packet.train;
  thread.parts[LatencyPart::kIngress] = parameters_.ingress_latency;
  thread.parts[LatencyPart::kDispatch] =
      now - thread.packet.arrived_at - parameters_.ingress_latency;

  // Sent packets have left, except where a thread is about to send from memory it has just freed.
  if (machine_.deletes_answered() == 0) program_begin_burst();
  machine_.start_packet(thread, [this] { program_process(); });
  if (thread.packet.layer == PacketLayer::kUdpPayload) {
    machine_.parse_headers(thread);
  }
  machine_.run(thread);
}

// --- Timers -------------------------------------------------------------------------------------

void PfeCore::arm_timers() {
  if (!timers_waiting_.empty()) return;  // They go first; dispatch() then calls this function.
  const Instant due = std::max({core_.now(), timers_rest_until_, program_next_due()});
  if (due >= timers_armed_at_ || due == Instant::never()) return;
  timers_armed_at_ = due;
  core_.schedule(due, EventPriority::kMachine, timer_event_, 0);
}

void PfeCore::rest_timers(Instant until) {
  timers_rest_until_ = until;
  timers_armed_at_ = Instant::never();  // The event in the queue is obsolete.
  arm_timers();
}

void PfeCore::TimerEvent::on_event(uint64_t) {
  if (pfe.core_.now() == pfe.timers_armed_at_) pfe.run_due_timers();
}

void PfeCore::run_due_timers() {
  timers_armed_at_ = Instant::never();
  if (timers_waiting_.empty()) {
    machine_.start_timers([this] { program_run_timers(core_.now()); });
  }
  dispatch();
}

void PfeCore::stop() {
  is_stopping_ = true;
  bank_timer_busy_at_stop_ = mark_now().bank_timer_busy;
  machine_.start_timers([this] { program_stop(); });
  dispatch();
}

ModelThread& PfeCore::new_timer_thread() {
  ModelThread& thread = take_thread(/*has_packet=*/false);
  // A record that it visits stands for as many as a packet does.
  thread.packet.train = parameters_.train_max;
  timers_waiting_.push_back(&thread);
  return thread;
}

void PfeCore::start_timer(ModelThread& thread) {
  take_ppe_threads(thread, thread.packet.train);
  counted_.timer_threads++;
  machine_.run(thread);
}

// --- Ending -------------------------------------------------------------------------------------

void PfeCore::thread_paused(ModelThread& thread) {
  if (!thread.has_packet) send_outbox(thread);
  arm_timers();
}

void PfeCore::thread_ended(ModelThread& thread) {
  note_span(thread, thread.has_packet);
  give_ppe_threads(thread);
  if (!thread.has_packet) {
    if (trace_.on()) trace_end(thread, /*held=*/false);
    send_outbox(thread);
    free_thread(thread);
  } else {
    if (!thread.packet_ended) counted_.consumed += thread.packet.train;
    const ReorderTicket ticket = thread.packet.ticket;
    const bool leaves = thread.forwarded || thread.outbox_count > 0;
    const uint64_t held_before = reorder_.counters().held;
    if (!leaves) {
      if (trace_.on()) trace_end(thread, /*held=*/false);
      leave(thread);
    }
    // The handles that the sink below receives hold thread numbers.
    leaving_.clear();
    reorder_.finish(ticket, leaves ? PacketHandle{thread.number, 0} : PacketHandle{},
                    [this](PacketHandle number) { leaving_.push_back(number.slot); });
    if (leaves && trace_.on()) trace_end(thread, reorder_.counters().held != held_before);
    for (size_t i = 0; i < leaving_.size(); i++) leave(*threads_[leaving_[i]]);
  }
  dispatch();
}

void PfeCore::leave(ModelThread& thread) {
  const Duration inside = core_.now() - thread.packet.arrived_at;
  // All other parts are known: the rest is the wait for earlier packets.
  thread.parts[LatencyPart::kReorder] = inside - thread.parts.sum();
  latency_.add(thread.parts, thread.packet.train);
  if (thread.gradients > 0) adding_.add(thread.parts, thread.packet.train);
  if (thread.forwarded) forward_packet(thread);
  send_outbox(thread);
  machine_.packets().release(thread.packet.stored);
  free_thread(thread);
}

void PfeCore::forward_packet(const ModelThread& thread) {
  const ArrivedPacket& packet = thread.packet;
  const std::span<const std::byte> stored = machine_.packets().bytes(packet.stored);
  if (trace_.on()) [[unlikely]] {
    trace_departure(thread, stored, packet.size_bytes, std::span(&packet.source, 1));
  }
  if (!has_egress_) {
    sink_.forward(stored, packet.size_bytes, packet.source, packet.number);
    return;
  }
  machine_.packets().add_references(packet.stored, 1);  // leave() releases its own.
  depart({.stored = packet.stored,
          .size_bytes = packet.size_bytes,
          .train = packet.train,
          .layer = packet.layer,
          .destination = packet.source,
          .number = packet.number});
}

void PfeCore::send_outbox(ModelThread& thread) {
  for (uint32_t i = 0; i < thread.outbox_count; i++) {
    const OutgoingPacket& packet = thread.outbox[i];
    if (trace_.on()) [[unlikely]] {
      trace_departure(thread, machine_.packets().bytes(packet.stored), packet.size_bytes,
                      packet.destinations);
    }
    if (has_egress_) {
      machine_.packets().add_references(packet.stored,
                                        static_cast<uint32_t>(packet.destinations.size()));
      for (const Endpoint& destination : packet.destinations) {
        depart({.stored = packet.stored,
                .size_bytes = packet.size_bytes,
                .train = thread.packet.train,
                .destination = destination});
      }
    } else {
      sink_.send(machine_.packets().bytes(packet.stored), packet.size_bytes, packet.destinations);
    }
    machine_.packets().release(packet.stored);
  }
  thread.outbox_count = 0;
}

}  // namespace tributary::engine
