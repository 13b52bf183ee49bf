// SPDX-License-Identifier: Apache-2.0
// A PFE's trace output, and its state at one moment. It runs only on request.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/model/pfe.h"

namespace tributary::engine {
namespace {

std::string place_text(const ModelThread& thread) {
  const PpeThread& first = thread.ppe_threads.first;
  return fmt::format("PPE {} thread {}", first.ppe, first.thread);
}

}  // namespace

const char* to_string(ThreadState state) {
  static constexpr std::array<const char*, 4> kNames{"ready", "executing", "waiting", "held"};
  return kNames[static_cast<uint32_t>(state)];
}

void PfeCore::set_trace(const Tracer& trace, const TraceWords& words) {
  trace_ = trace;
  words_ = &words;
  machine_.set_trace(trace, words);
}

// --- Events -------------------------------------------------------------------------------------

void PfeCore::trace_arrival(const ArrivedPacket& packet, std::span<const std::byte> stored) const {
  TraceWord message = words_->message(stored, packet.size_bytes);
  message.fields.emplace_back("bytes", packet.size_bytes);
  message.fields.emplace_back("from", packet.source.to_string());
  if (packet.train > 1) message.fields.emplace_back("train", packet.train);
  trace_.emit(core_.now(), packet.number, TraceKind::kArrive, std::move(message.name),
              std::move(message.fields));
}

void PfeCore::trace_refusal(uint64_t number, const char* why) const {
  trace_.emit(core_.now(), number, TraceKind::kDrop, why);
}

void PfeCore::trace_start(const ModelThread& thread) const {
  std::vector<TraceField> fields{{"thread", thread.number}, {"place", place_text(thread)}};
  if (thread.has_packet) {
    fields.emplace_back("dispatch_wait",
                        thread.started_at - thread.packet.arrived_at - parameters_.ingress_latency);
  }
  trace_.emit(core_.now(), thread.packet.number, TraceKind::kThread,
              thread.has_packet ? "packet" : "timer", std::move(fields));
}

void PfeCore::trace_end(const ModelThread& thread, bool held) const {
  std::string outcome = "done";
  if (thread.forwarded) {
    outcome = "forwarded";
  } else if (thread.outbox_count > 0) {
    outcome = fmt::format("sends {}", thread.outbox_count);
  } else if (thread.has_packet) {
    outcome = thread.packet_ended ? "dropped" : "consumed";
  }
  std::vector<TraceField> fields{{"thread", thread.number},
                                 {"on_thread", core_.now() - thread.started_at},
                                 {"instructions", thread.instructions}};
  if (thread.gradients > 0) fields.emplace_back("gradients", thread.gradients);
  trace_.emit(core_.now(), thread.packet.number, TraceKind::kEnd, std::move(outcome),
              std::move(fields));
  if (held) {
    trace_.emit(core_.now(), thread.packet.number, TraceKind::kHold, "reorder engine",
                {{"thread", thread.number}});
  }
}

void PfeCore::trace_departure(const ModelThread& thread, std::span<const std::byte> stored,
                              uint32_t size_bytes, std::span<const Endpoint> destinations) const {
  TraceWord message = words_->message(stored, size_bytes);
  message.fields.emplace_back("bytes", size_bytes);
  if (!destinations.empty()) message.fields.emplace_back("to", destinations[0].to_string());
  if (destinations.size() != 1) message.fields.emplace_back("copies", destinations.size());
  if (thread.has_packet) {
    message.fields.emplace_back("inside", core_.now() - thread.packet.arrived_at);
  }
  trace_.emit(core_.now(), thread.packet.number, TraceKind::kSend, std::move(message.name),
              std::move(message.fields));
}

// --- One moment ---------------------------------------------------------------------------------

ThreadView PfeCore::view_of(const ModelThread& thread, const TraceWords& words) {
  ThreadView view{.number = thread.number,
                  .place = {},
                  .place_count = thread.ppe_threads.count,
                  .packet = thread.packet.number,
                  .started_at = thread.started_at,
                  .since = thread.local_at,
                  .instructions = thread.instructions};
  if (!thread.ppe_threads.empty()) view.place = thread.ppe_threads.first;
  if (thread.waiting_on != nullptr) {
    const RequestView request = thread.waiting_on->view();
    view.state = ThreadState::kWaiting;
    view.since = thread.waits_since;
    view.waits_for = request.what;
    view.target = words.target(request.target).name;
  } else if (thread.ppe_threads.empty()) {
    view.state = ThreadState::kReady;
  } else if (!thread.on_ppe) {
    view.state = ThreadState::kHeld;
  }
  return view;
}

PfeView PfeCore::view(Instant at, const TraceWords& words) const {
  PfeView view;
  view.at = at;
  view.thread_count = parameters_.thread_count();
  std::vector<bool> is_free(threads_.size());
  for (const uint32_t number : free_) is_free[number] = true;
  for (const auto& thread : threads_) {
    if (!is_free[thread->number]) view.threads.push_back(view_of(*thread, words));
  }
  for (size_t i = 0; i < waiting_.size(); i++) {
    const ArrivedPacket& packet = waiting_[i];
    view.waiting.push_back({.packet = packet.number,
                            .size_bytes = packet.size_bytes,
                            .arrived_at = packet.arrived_at,
                            .in_ingress = i >= ready_count_});
  }
  const MemoryTiming& memory = machine_.memory_timing();
  for (uint32_t bank = 0; bank < memory.bank_count(); bank++) {
    view.banks.push_back({.backlog = memory.backlog(bank, at), .busy = memory.busy(bank)});
  }
  return view;
}

}  // namespace tributary::engine
