// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's switch as a packet program (SwitchML paper §4.5, Algorithm 3): a thread per packet.
///
///   locate the message -> find its sender -> check it -> admit it to its slot's set
///   -> add the elements -> if the sum is final: make the result and send it to every worker
///
/// Contract: Correct under every interleaving of its XTXNs (microcode/machine.h). Only whole XTXNs
///           change the sets of a slot: admit, settle, complete, and the end of reading.
/// Wire:     wire/switchml.h. A result goes to each worker's address, and to the UDP port that its
///           own contribution came from; docs/switchml.md lists the published switch's differences.
/// Tests:    tests/apps/switchml/program_test.cc (live), interleaving_test.cc (suspending machine),
///           three_machines_test.cc (pipeline model, live, modelled Trio)
#pragma once

#include <span>

#include "apps/arrival.h"
#include "apps/counting.h"
#include "apps/switchml/switchml.h"
#include "base/byte_order.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"

namespace tributary::switchml {

using apps::count;
using apps::refuse;

inline constexpr microcode::Instruction kCheckSlot{"check_slot", {.register_reads = 4}};

/// The fields of a packet that the program keeps.
struct Message {
  apps::Arrival arrival;
  Contribution contribution{};
  uint32_t slot = 0;
  uint32_t set = 0;
};

namespace detail {

/// Reads the header and checks it against the sender's session.
template <microcode::Machine M>
Verdict read_header(M& m, const Sender& sender, Message& message) {
  using H = SwitchmlHeader;
  const apps::Arrival& arrival = message.arrival;
  m.instruction(apps::kParseHeader);
  const auto header = *m.head().template view<H>(arrival.offset);
  message.contribution = {
      .name = {.packet_id = byte_swapped(header.template get<H::PacketId>()),
               .job_number = static_cast<uint8_t>(header.template get<H::JobNumber>())},
      .worker = sender.worker,
      .udp_port = arrival.source.port,
      .exponent0 = static_cast<int8_t>(header.template get<H::Exponent0>()),
      .exponent1 = static_cast<int8_t>(header.template get<H::Exponent1>())};
  message.slot = header.template get<H::Slot>();
  message.set = header.template get<H::Set>();
  m.instruction(apps::kCheckHeader);
  const SessionConfig& config = sender.session->config;
  if (!sender.session->is_complete()) return Outcome::kSessionIncomplete;
  if (wire::switchml_elements(header.template get<H::Size>()) != config.elements) {
    return Outcome::kWrongElements;
  }
  if (arrival.size != H::kBytes + config.elements * 4) return Outcome::kLengthDiffers;
  if (message.slot >= config.slots) return Outcome::kSlotOutsidePool;
  return kAccepted;
}

/// Writes the head of the slot's result.
inline void build_head(const Session& session, const SetRecord& record, const Message& message) {
  wire::encode_switchml_head({.job_number = record.name.job_number,
                              .packet_id = record.name.packet_id,
                              .set = message.set != 0,
                              .slot = static_cast<uint16_t>(message.slot),
                              .exponent0 = record.exponent0,
                              .exponent1 = record.exponent1,
                              .elements = session.config.elements},
                             session.pool.head(message.slot, message.set));
}

[[nodiscard]] constexpr Outcome refusal_of(Admission admission) {
  switch (admission) {
    case Admission::kDuplicate:
      return Outcome::kDuplicate;
    case Admission::kPhaseAhead:
      return Outcome::kPhaseAhead;
    case Admission::kChunkDiffers:
      return Outcome::kChunkDiffers;
    default:
      return Outcome::kSlotBusy;
  }
}

}  // namespace detail

/// Returns the request of an XTXN on a set's record.
[[nodiscard]] inline microcode::Xtxn request_on(const SetRecord& record) {
  return {microcode::XtxnKind::kFetchAndOp, &record, 16};
}

/// Sends the slot's result, then releases the slot. @pre The thread is one of its readers.
template <microcode::Machine M>
void send_result(M& m, Shard& shard, const Session& session, SetRecord& record,
                 const Message& message, std::span<const Endpoint> to, Outcome counted) {
  const auto result = session.pool.message(message.slot, message.set, session.config.elements);
  m.send(result, to);
  count(m, shard, counted, static_cast<uint32_t>(result.size()), to.size());
  m.post(request_on(record), [&record] { record.readers--; });
}

/// Makes the result and sends it to every worker. @pre The slot's sum is final.
template <microcode::Machine M>
microcode::Subroutine<void, M> publish(M& m, Shard& shard, Session& session, SetRecord& record,
                                       const Message& message) {
  co_await m.finish_lanes(session.pool.lanes(message.slot, message.set), session.config.elements);
  m.instruction(apps::kBuildHeader);
  detail::build_head(session, record, message);
  count(m, shard, Outcome::kSlotCompleted);
  co_await m.issue(request_on(record), [&record, &shard, &session] {
    record.phase = SetPhase::kComplete;
    record.readers++;
    record.sent_in_burst = shard.burst();
    session.slots_completed++;
  });
  // The thread does not wait between here and send(), so no other thread changes the list.
  for (uint32_t w = 0; w < session.config.workers; w++) {
    session.destinations[w].port = record.udp_ports[w];
  }
  send_result(m, shard, session, record, message, session.destinations, Outcome::kResultSent);
}

/// Admits the contribution to its set (the upper half of Algorithm 3).
template <microcode::Machine M>
microcode::Subroutine<Admission, M> let_in(M& m, const Shard& shard, Session& session,
                                           const Message& message) {
  m.instruction(kCheckSlot);
  const SlotPool& pool = session.pool;
  SetRecord& here = pool.record(message.slot, message.set);
  SetRecord& other = pool.record(message.slot, 1 - message.set);
  co_return co_await m.issue(request_on(here), [&m, &shard, &session, &message, &here, &other] {
    const auto begin = [&] {
      // A result that was sent in this burst may not have left the lanes yet.
      if (here.sent_in_burst == shard.burst()) m.release_payload({});
      // If several threads add at once, none of them is the first to write.
      if (M::kSuspends && !TRIB_MUTANT(kSetNotCleared)) {
        std::fill_n(session.pool.lanes(message.slot, message.set), session.config.elements, 0);
      }
    };
    session.note_port(message.contribution.worker, message.contribution.udp_port);
    const SetOwner owner{.epoch = session.epoch,
                         .workers = session.config.workers,
                         .generation = session.generation};
    const Admission admission = admit(here, other, owner, message.contribution, begin);
    if (admission == Admission::kKept) here.sent_in_burst = shard.burst();
    return admission;
  });
}

/// Answers a packet that its set did not admit: sends the kept result or refuses the packet.
template <microcode::Machine M>
void answer_not_admitted(M& m, Shard& shard, const Session& session, const Message& message,
                         Admission admission) {
  if (admission != Admission::kKept) {
    refuse(m, shard, detail::refusal_of(admission));
    return;
  }
  send_result(m, shard, session, session.pool.record(message.slot, message.set), message,
              std::span<const Endpoint>(&message.arrival.source, 1), Outcome::kRetransmitted);
  m.drop(static_cast<uint32_t>(Outcome::kRetransmitted));
}

/// Runs the thread for one packet.
template <microcode::Machine M>
microcode::Thread process_packet(M& m, Shard& shard) {
  Message message{.arrival = apps::payload_arrival(m)};
  const apps::Fit fit =
      apps::locate_udp_payload(m, wire::kSwitchmlPort, message.arrival, wire::kSwitchmlPortMask);
  if (fit != apps::Fit::kFits) {
    refuse(m, shard, apps::outcome_of<Outcome>(fit));
    co_return;
  }
  const auto header = m.head().template view<SwitchmlHeader>(message.arrival.offset);
  if (!header || message.arrival.size < SwitchmlHeader::kBytes) {
    refuse(m, shard, Outcome::kTruncated);
    co_return;
  }
  if (header->template get<SwitchmlHeader::MessageType>() != wire::kSwitchmlMessageType) {
    refuse(m, shard, Outcome::kNotSwitchml);
    co_return;
  }
  const Instant now = m.now();
  const Sender* const sender =
      co_await m.issue(microcode::Xtxn{microcode::XtxnKind::kHashLookup, &shard, 16},
                       [&] { return shard.hear(message.arrival.source, now); });
  if (sender == nullptr) {
    refuse(m, shard, Outcome::kUnknownWorker);
    co_return;
  }
  Session& session = *sender->session;
  if (const Verdict verdict = detail::read_header(m, *sender, message); verdict.is_refused()) {
    refuse(m, shard, verdict.reason());
    co_return;
  }

  const Admission admission = co_await let_in(m, shard, session, message);
  const bool first = admission == Admission::kFirst || admission == Admission::kRestarted ||
                     admission == Admission::kReclaimed;
  if (!first && admission != Admission::kAdded) {
    answer_not_admitted(m, shard, session, message, admission);
    co_return;
  }
  if (admission == Admission::kRestarted) count(m, shard, Outcome::kSlotRestarted);
  if (admission == Admission::kReclaimed) count(m, shard, Outcome::kSlotReclaimed);
  co_await m.accumulate(
      session.pool.lanes(message.slot, message.set),
      message.arrival.offset + SwitchmlHeader::kBytes, session.config.elements,
      first && !M::kSuspends ? microcode::Accumulate::kFirst : microcode::Accumulate::kAdd);
  count(m, shard, Outcome::kAggregated, message.arrival.size);
  SetRecord& record = session.pool.record(message.slot, message.set);
  const bool is_final = co_await m.issue(request_on(record), [&] {
    return settle(record, session.config.workers, message.contribution);
  });
  if (is_final) co_await publish(m, shard, session, record, message);
}

}  // namespace tributary::switchml
