// SPDX-License-Identifier: Apache-2.0
/// @file
/// Flow telemetry as a packet program: a thread for each packet.
///
///   parse the flow -> look it up, or insert it -> first and last time, TCP flags -> count
///
/// Contract: Correct under every interleaving of its XTXNs (microcode/machine.h). The look-up admits
///           the packet to a span of the record. The counter increment settles it, so it is the
///           thread's last XTXN on the record: from then on a timer may remove the record.
/// Times:    A packet's time is its arrival, the same on each machine.
/// Tests:    tests/apps/telemetry/telemetry_test.cc, tests/apps/telemetry/interleaving_test.cc
#pragma once

#include "apps/counting.h"
#include "apps/telemetry/telemetry.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"

namespace tributary::telemetry {

inline constexpr microcode::Instruction kHashKey{"hash_key",
                                                 {.lmem_reads = 2, .register_writes = 1}};
inline constexpr microcode::Instruction kCompareTimes{"compare_times", {.register_reads = 4}};
inline constexpr microcode::Instruction kForward{"forward_packet", {}};

/// Keeps the smallest of all values that threads write. Whatever a swap returns has left the word,
/// so the thread puts the smaller of the two back. Each value that it carries is smaller than the
/// one before, so the loop ends; while it runs the word may be too large.
template <microcode::Machine M>
microcode::Subroutine<void, M> keep_smallest(M& m, uint64_t& word, uint64_t value) {
  for (;;) {
    const uint64_t was = co_await memory::xtxn_fetch_and_swap(m, word, value);
    if (was >= value) co_return;
    value = was;
  }
}

/// Keeps the largest of all values that threads write, as keep_smallest().
template <microcode::Machine M>
microcode::Subroutine<void, M> keep_largest(M& m, uint64_t& word, uint64_t value) {
  for (;;) {
    const uint64_t was = co_await memory::xtxn_fetch_and_swap(m, word, value);
    if (was <= value) co_return;
    value = was;
  }
}

/// Reads the packet's headers. @return kAccounted, or the defect.
template <microcode::Machine M>
Outcome read_flow(M& m, apps::FlowPacket& packet) {
  if (!m.arrived_as_frame()) return Outcome::kNotFrame;
  const auto mark = [&m](const microcode::Instruction& instruction) { m.instruction(instruction); };
  const apps::FlowFit fit = apps::parse_flow(m.head(), m.packet_size(), mark, packet);
  return fit == apps::FlowFit::kFits ? Outcome::kAccounted : outcome_of(fit);
}

/// Counts the packet and forwards it unchanged.
template <microcode::Machine M>
void count_and_forward(M& m, TelemetryState& state, Outcome outcome, uint32_t bytes) {
  apps::count(m, state, outcome, bytes);
  m.instruction(kForward);
  m.forward();
}

/// Runs the thread for one packet.
template <microcode::Machine M>
microcode::Thread process_packet(M& m, TelemetryState& state) {
  apps::FlowPacket packet;
  if (const Outcome defect = read_flow(m, packet); defect != Outcome::kAccounted) {
    count_and_forward(m, state, defect, m.packet_size());
    co_return;
  }
  const uint64_t arrived_at = time_word(m.arrived_at());
  m.instruction(kHashKey);
  const std::byte* const bucket = state.bucket_of(packet.key);
  Admission flow = co_await m.issue(
      microcode::Xtxn{microcode::XtxnKind::kHashLookup, bucket, memory::kHashBucketBytes},
      [&state, &packet] { return state.admit(packet.key); });
  if (flow.span == nullptr) {
    flow = co_await m.issue(
        microcode::Xtxn{microcode::XtxnKind::kHashInsert, bucket, memory::kHashBucketBytes},
        [&state, &packet, arrived_at] { return state.insert(packet.key, arrived_at); });
  }
  if (flow.span == nullptr) {
    count_and_forward(m, state, flow.refusal, packet.ip_bytes);
    co_return;
  }
  // The words in the reply are those of packets, so a word that is good enough stays so.
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
