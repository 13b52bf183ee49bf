// SPDX-License-Identifier: Apache-2.0
/// @file
/// Flow telemetry as a packet program: a thread for each packet.
///
///   parse the flow -> look it up, or insert it -> first and last time, TCP flags -> count
///
/// Contract: Correct under every interleaving of its XTXNs (microcode/machine.h). The look-up
///           admits the packet to a span of the record. The counter increment settles it, so it is
///           the thread's last XTXN on the record: from then on a timer may remove the record.
/// Times:    A packet's time is its arrival, the same on each machine.
/// Tests:    tests/apps/telemetry/telemetry_test.cc, tests/apps/telemetry/interleaving_test.cc
#pragma once

#include <optional>

#include "apps/counting.h"
#include "apps/telemetry/telemetry.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"

namespace tributary::telemetry {

inline constexpr microcode::Instruction kHashKey{"hash_key",
                                                 {.lmem_reads = 2, .register_writes = 1}};
inline constexpr microcode::Instruction kCompareTimes{"compare_times", {.register_reads = 4}};
inline constexpr microcode::Instruction kForward{"forward_packet", {}};

/// Keeps the smallest of all values that threads write. A swap removes the word's previous value.
/// If that value is smaller, the thread writes it back, unless the word already holds one that is
/// as small. Without this check, each swap could remove a value that another thread has just
/// written, and a steady flow could keep a thread in the loop for ever. While the loop runs, the
/// word may be too large.
template <microcode::Machine M>
microcode::Subroutine<void, M> keep_smallest(M& m, uint64_t& word, uint64_t value) {
  for (;;) {
    const uint64_t was = co_await memory::xtxn_fetch_and_swap(m, word, value);
    if (was >= value) co_return;
    value = was;
    if (co_await memory::xtxn_read(m, word) <= value) co_return;
  }
}

/// Keeps the largest of all values that threads write, as keep_smallest().
template <microcode::Machine M>
microcode::Subroutine<void, M> keep_largest(M& m, uint64_t& word, uint64_t value) {
  for (;;) {
    const uint64_t was = co_await memory::xtxn_fetch_and_swap(m, word, value);
    if (was <= value) co_return;
    value = was;
    if (co_await memory::xtxn_read(m, word) >= value) co_return;
  }
}

/// Returns the packet's note: the one taken when the burst was prefetched, or `own`, made here.
template <microcode::Machine M>
const FlowNote& read_flow(M& m, TelemetryState& state, std::optional<FlowNote>& own) {
  if constexpr (!M::kSuspends) {
    if (const FlowNote* note = state.notes().next(m.head().bytes())) return *note;
  }
  own.emplace();
  if (!m.arrived_as_frame()) return *own;
  own->fit = apps::parse_flow(m.head(), m.packet_size(), apps::ThreadMarks<M>{m}, own->packet);
  if (own->fit == apps::FlowFit::kFits) own->hash = state.hash_of(own->packet.key);
  return *own;
}

/// Counts the packet and forwards it unchanged.
template <microcode::Machine M>
void count_and_forward(M& m, TelemetryState& state, Outcome outcome, uint32_t bytes) {
  apps::count(m, state, outcome, bytes);
  m.instruction(kForward);
  m.forward();
}

/// Runs the steps of process_packet() in one go, on a machine that suspends no thread.
template <microcode::Machine M>
void process_in_place(M& m, TelemetryState& state) {
  std::optional<FlowNote> own;
  const FlowNote& note = read_flow(m, state, own);
  if (note.fit != apps::FlowFit::kFits) {
    count_and_forward(m, state, outcome_of(note.fit), m.packet_size());
    return;
  }
  const uint64_t arrived_at = time_word(m.arrived_at());
  Admission flow = state.admit(note.packet.key, note.hash);
  if (flow.span == nullptr) [[unlikely]] {
    flow = state.insert(note.packet.key, arrived_at);
    if (flow.span == nullptr) {
      count_and_forward(m, state, flow.refusal, note.packet.ip_bytes);
      return;
    }
  }
  FlowSpan& span = *flow.span;
  span.first_at = std::min(span.first_at, arrived_at);
  span.last_at = std::max(span.last_at, arrived_at);
  span.tcp_flags |= note.packet.tcp_flags;
  memory::count_packet(span.counted, note.packet.ip_bytes);
  count_and_forward(m, state, Outcome::kAccounted, note.packet.ip_bytes);
}

/// Runs the thread for one packet.
template <microcode::Machine M>
microcode::Thread process_packet(M& m, TelemetryState& state) {
  std::optional<FlowNote> own;
  const FlowNote& note = read_flow(m, state, own);
  if (note.fit != apps::FlowFit::kFits) {
    count_and_forward(m, state, outcome_of(note.fit), m.packet_size());
    co_return;
  }
  const apps::FlowPacket& packet = note.packet;
  const uint64_t arrived_at = time_word(m.arrived_at());
  m.instruction(kHashKey);
  Admission flow =
      co_await m.issue(state.hash_request(microcode::XtxnKind::kHashLookup, packet.key),
                       [&state, &note] { return state.admit(note.packet.key, note.hash); });
  if (flow.span == nullptr) {
    flow = co_await m.issue(
        state.hash_request(microcode::XtxnKind::kHashInsert, packet.key),
        [&state, &packet, arrived_at] { return state.insert(packet.key, arrived_at); });
  }
  if (flow.span == nullptr) {
    count_and_forward(m, state, flow.refusal, packet.ip_bytes);
    co_return;
  }
  // Each word in the reply is a time, or flags, of earlier packets, and the final word is at least
  // as good. So a word that this packet does not improve needs no write.
  m.instruction(kCompareTimes);
  FlowSpan& span = *flow.span;
  if (arrived_at < flow.first_at) co_await keep_smallest(m, span.first_at, arrived_at);
  if (arrived_at > flow.last_at) co_await keep_largest(m, span.last_at, arrived_at);
  if ((packet.tcp_flags & ~flow.tcp_flags) != 0) {
    co_await memory::xtxn_fetch_and_or<M, uint64_t>(m, span.tcp_flags, packet.tcp_flags);
  }
  memory::post_counter_increment(m, span.counted, packet.ip_bytes);
  count_and_forward(m, state, Outcome::kAccounted, packet.ip_bytes);
}

}  // namespace tributary::telemetry
