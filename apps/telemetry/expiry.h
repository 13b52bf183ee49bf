// SPDX-License-Identifier: Apache-2.0
/// @file
/// The timer programs of flow telemetry (Trio paper §5). One kind of thread removes idle flows by
/// their REF flags, another exports flows that last long, and one exports all flows at the end.
///
/// Bounds:   A flow whose last packet came at t ends in [t + inactive, t + 2 * inactive]. A flow
///           that is older than the active timeout is exported at most a quarter of it later.
/// Contract: A thread holds a message buffer before it takes a record's counts, so every record
///           that it takes is sent. Without a free buffer the records stay for the next visit.
/// Tests:    tests/apps/telemetry/expiry_test.cc, tests/apps/telemetry/interleaving_test.cc
#pragma once

#include <bit>

#include "apps/telemetry/telemetry.h"
#include "base/time.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"

namespace tributary::telemetry {

inline constexpr microcode::Instruction kScanFlows{"scan_flows",
                                                   {.register_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kCheckAge{"check_age",
                                                  {.register_reads = 4, .register_writes = 1}};
inline constexpr microcode::Instruction kBuildRecord{"build_record",
                                                     {.lmem_reads = 2, .lmem_writes = 2}};
inline constexpr microcode::Instruction kBuildMessage{"build_message",
                                                      {.register_reads = 4, .lmem_writes = 2}};

/// Passes over the store in export_all_flows(); more are needed only while packets are in flight.
inline constexpr uint32_t kStopPassesMax = 1000;

/// The message that a timer thread fills.
struct Outbox {
  std::span<std::byte> buffer;  ///< Empty: none taken.
  wire::IpfixWriter writer;
};

namespace detail {

using microcode::Xtxn;
using microcode::XtxnKind;

/// Takes a buffer from the pool. A service.
template <microcode::Machine M>
std::span<std::byte> take_buffer(M& m, TelemetryState& state) {
  const MessagePool::Taken taken = state.pool().take();
  if (taken.needs_release) {
    m.release_payload({});
    state.pool().all_released();
  }
  return taken.buffer;
}

/// Writes the templates into the outbox's buffer.
template <microcode::Machine M>
auto begin_message(M& m, const TelemetryState& state, Outbox& box) {
  m.instruction(kBuildMessage);
  box.writer = wire::IpfixWriter(box.buffer.first(state.config().message_bytes_max));
  return m.issue(Xtxn{XtxnKind::kWrite, box.buffer.data(), wire::kIpfixPrefixBytes},
                 [&box] { box.writer.begin(); });
}

/// Gives the outbox a buffer unless it has one. @return whether it has one now.
template <microcode::Machine M>
microcode::Subroutine<bool, M> open_message(M& m, TelemetryState& state, Outbox& box) {
  if (!box.buffer.empty()) co_return true;
  box.buffer = co_await m.issue(Xtxn{XtxnKind::kFetchAndOp, &state.pool_word(), 8}, [&m, &state] {
    const auto buffer = take_buffer(m, state);
    if (buffer.empty()) state.note_visit_without_buffer();
    return buffer;
  });
  if (box.buffer.empty()) co_return false;
  co_await begin_message(m, state, box);
  co_return true;
}

/// Writes the header and sends the message. @pre It has records.
template <microcode::Machine M>
microcode::Subroutine<void, M> send_message(M& m, TelemetryState& state, Outbox& box) {
  const uint64_t sequence = co_await memory::xtxn_fetch_and_add<M, uint64_t>(
      m, state.sequence(), box.writer.record_count());
  m.instruction(kBuildMessage);
  const auto now_s = static_cast<uint32_t>(state.since_1970_ns(m.now()) / kNanosecondsPerSecond);
  co_await m.issue(Xtxn{XtxnKind::kWrite, box.buffer.data(), wire::kIpfixHeaderBytes},
                   [&state, &box, sequence, now_s] {
                     box.writer.finish(now_s, static_cast<uint32_t>(sequence),
                                       state.config().observation_domain);
                     state.note_message(static_cast<uint32_t>(box.writer.message().size()));
                   });
  m.send(box.writer.message(), std::span<const Endpoint>(&state.config().collector, 1));
}

/// Sends the message, if it has records, and gives its buffer back.
template <microcode::Machine M>
microcode::Subroutine<void, M> close_message(M& m, TelemetryState& state, Outbox& box) {
  if (box.buffer.empty()) co_return;
  const bool has_records = box.writer.record_count() > 0;
  if (has_records) co_await send_message(m, state, box);
  co_await m.issue(Xtxn{XtxnKind::kFetchAndOp, &state.pool_word(), 8}, [&state, &box, has_records] {
    state.pool().give_back(box.buffer, has_records);
  });
  box.buffer = {};
}

/// Appends a record. Sends the message first if the record does not fit.
/// @pre The outbox has a buffer.
template <microcode::Machine M>
microcode::Subroutine<void, M> append_record(M& m, TelemetryState& state, Outbox& box,
                                             const FlowExport& flow) {
  const bool is_ipv6 = flow.key.ip_version == 6;
  if (!box.writer.fits(is_ipv6)) {
    co_await send_message(m, state, box);
    // Returns and takes a buffer in one transaction, so the pool is never empty in between.
    box.buffer =
        co_await m.issue(Xtxn{XtxnKind::kFetchAndOp, &state.pool_word(), 8}, [&m, &state, &box] {
          state.pool().give_back(box.buffer, /*was_sent=*/true);
          return take_buffer(m, state);
        });
    co_await begin_message(m, state, box);
  }
  m.instruction(kBuildRecord);
  co_await m.issue(Xtxn{XtxnKind::kWrite, box.writer.end(), wire::ipfix_record_bytes(is_ipv6)},
                   [&state, &box, &flow] {
                     box.writer.append(state.to_ipfix(flow));
                     state.note_export(flow);
                   });
}

/// Removes the flow of a slot and appends its records. @return whether it removed the flow.
template <microcode::Machine M>
microcode::Subroutine<bool, M> remove_flow(M& m, TelemetryState& state, Outbox& box, uint32_t slot,
                                           wire::FlowEndReason reason) {
  const RemovedFlow flow =
      co_await m.issue(state.hash_request_at(XtxnKind::kHashDelete, slot),
                       [&state, slot, reason] { return state.remove(slot, reason); });
  for (uint32_t i = 0; i < flow.count; i++) {
    co_await append_record(m, state, box, flow.exports[i]);
  }
  co_return flow.removed;
}

/// Reads which slots of a word hold flows. These bits lie beside the REF flags.
template <microcode::Machine M>
auto read_live_mask(M& m, TelemetryState& state, uint32_t begin) {
  m.instruction(kScanFlows);
  return m.issue(Xtxn{XtxnKind::kRead, state.ref_flag_of(begin),
                      memory::kRecordsPerScan * memory::kRefFlagBytes},
                 [&state, begin] { return state.live_mask(begin); });
}

/// Exports the current span of a record, which stays, with reason kActive.
///
/// 1. Set kExporting, so that no other thread exports or removes the record.
/// 2. Make the other span current, unless an earlier visit has done so (kDraining).
/// 3. Read the old span. If it is not settled, leave it to the next visit.
/// 4. Blank it, add it to the flow's total, clear both bits.
template <microcode::Machine M>
microcode::Subroutine<void, M> export_span(M& m, TelemetryState& state, Outbox& box,
                                           uint32_t slot) {
  FlowRecord& record = state.record_at(slot);
  const uint64_t was = co_await memory::xtxn_fetch_and_or(m, record.state, kExporting);
  // A free slot's bit has no effect: the next flow begins with a new state.
  if ((was & kInUse) == 0 || (was & kExporting) != 0) co_return;
  const bool draining = (was & kDraining) != 0;
  FlowSpan& old = record.spans[draining ? 1 - (was & kCurrentSpan) : was & kCurrentSpan];
  if (!draining) {
    co_await memory::xtxn_fetch_and_xor(m, record.state, kCurrentSpan | kDraining);
  }
  FlowExport flow = co_await m.issue(Xtxn{XtxnKind::kRead, &old, sizeof(FlowSpan)},
                                     [&state, slot, &old] { return state.copy_span(slot, old); });
  if (!flow.span.is_settled()) {
    co_await memory::xtxn_fetch_and_clear(m, record.state, kExporting);
    co_return;
  }
  co_await m.issue(Xtxn{XtxnKind::kWrite, &old, sizeof(FlowSpan)}, [&old] { old = FlowSpan{}; });
  const auto& counted = flow.span.counted;
  flow.total =
      co_await m.issue(Xtxn{XtxnKind::kCounterIncrement, &record.exported, sizeof(record.exported)},
                       [&record, &counted] {
                         record.exported.packets += counted.packets;
                         record.exported.bytes += counted.bytes;
                         return record.exported;
                       });
  co_await memory::xtxn_masked_write<M, uint64_t>(m, record.state, 0, kExporting | kDraining);
  flow.reason = wire::FlowEndReason::kActive;
  if (counted.packets > 0) co_await append_record(m, state, box, flow);
}

/// Visits the flow of one slot: ends it after a FIN or RST, or exports its span when that is due.
/// An old flow that is idle ends, too: its last record has reason kIdle.
template <microcode::Machine M>
microcode::Subroutine<void, M> check_age(M& m, TelemetryState& state, Outbox& box, uint32_t slot) {
  const FlowRecord& record = state.record_at(slot);
  const FlowAge age = co_await m.issue(Xtxn{XtxnKind::kRead, &record, sizeof(FlowRecord)},
                                       [&state, slot] { return state.age_of(slot); });
  m.instruction(kCheckAge);
  const TelemetryConfig& config = state.config();
  const bool has_ended =
      config.export_on_fin && (age.tcp_flags & (wire::kTcpFin | wire::kTcpRst)) != 0;
  const bool has_packets = age.first_at != UINT64_MAX;
  const bool is_old = has_packets && m.now() - instant_of(age.first_at) >= config.active_timeout;
  // The last time is 0 while the span's first packet is being counted.
  const bool is_idle =
      is_old && age.last_at != 0 && m.now() - instant_of(age.last_at) >= config.inactive_timeout;
  if (!has_ended && !age.draining && !is_old) co_return;
  if (!co_await open_message(m, state, box)) co_return;
  if (has_ended && co_await remove_flow(m, state, box, slot, wire::FlowEndReason::kEndOfFlow)) {
    co_return;
  }
  if (is_idle && co_await remove_flow(m, state, box, slot, wire::FlowEndReason::kIdle)) co_return;
  // An idle flow that could not be removed is left to expire_idle_flows().
  if (age.draining || (is_old && !is_idle)) co_await export_span(m, state, box, slot);
}

}  // namespace detail

/// Runs a timer thread over its slice: removes and exports idle flows.
template <microcode::Machine M>
microcode::Thread expire_idle_flows(M& m, TelemetryState& state, timers::TimerSlice slice) {
  Outbox box;
  uint32_t begin = slice.begin;
  while (begin < slice.end) {
    // A scan visits one word of REF flags.
    const uint32_t end =
        std::min(slice.end, begin / memory::kRecordsPerScan * memory::kRecordsPerScan +
                                memory::kRecordsPerScan);
    m.instruction(kScanFlows);
    uint64_t idle = co_await m.issue(
        microcode::Xtxn{microcode::XtxnKind::kHashScan, state.ref_flag_of(begin), 8},
        [&state, begin, end] { return state.scan_idle(begin, end); });
    for (; idle != 0; idle &= idle - 1) {
      if (!co_await detail::open_message(m, state, box)) break;
      const uint32_t slot = begin + static_cast<uint32_t>(std::countr_zero(idle));
      co_await detail::remove_flow(m, state, box, slot, wire::FlowEndReason::kIdle);
    }
    begin = end;
  }
  co_await detail::close_message(m, state, box);
}

/// Runs a timer thread over its slice: exports flows that have lasted for the active timeout, ends
/// those of them that are idle, and ends flows after a FIN or RST if the configuration says so.
template <microcode::Machine M>
microcode::Thread export_old_flows(M& m, TelemetryState& state, timers::TimerSlice slice) {
  Outbox box;
  constexpr uint32_t kWord = memory::kRecordsPerScan;
  for (uint32_t word = slice.begin / kWord * kWord; word < slice.end; word += kWord) {
    uint64_t live = co_await detail::read_live_mask(m, state, word);
    for (; live != 0; live &= live - 1) {
      const uint32_t slot = word + static_cast<uint32_t>(std::countr_zero(live));
      // The word may reach into the slices beside this one.
      if (slot < slice.begin || slot >= slice.end) continue;
      co_await detail::check_age(m, state, box, slot);
    }
  }
  co_await detail::close_message(m, state, box);
}

/// Runs the last thread: exports and removes every flow. It waits for packets in flight by passing
/// over the store again, at most kStopPassesMax times.
template <microcode::Machine M>
microcode::Thread export_all_flows(M& m, TelemetryState& state) {
  Outbox box;
  bool any_left = true;
  for (uint32_t pass = 0; any_left && pass < kStopPassesMax; pass++) {
    any_left = false;
    for (uint32_t word = 0; word < state.config().flows_max; word += memory::kRecordsPerScan) {
      uint64_t live = co_await detail::read_live_mask(m, state, word);
      for (; live != 0; live &= live - 1) {
        any_left = true;
        if (!co_await detail::open_message(m, state, box)) break;
        const uint32_t slot = word + static_cast<uint32_t>(std::countr_zero(live));
        co_await detail::remove_flow(m, state, box, slot, wire::FlowEndReason::kForcedEnd);
      }
    }
  }
  co_await detail::close_message(m, state, box);
}

}  // namespace tributary::telemetry
