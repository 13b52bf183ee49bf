// SPDX-License-Identifier: Apache-2.0
/// @file
/// The guard's threads: one for each packet, and the timer threads for detection, recovery and
/// expiry (Trio paper §7, "Trio for in-network security").
///
///   read --> known source? --> completes a handshake? --> destination: policer, culprit?
///                 violated:  source: culprit? --> network: culprit? --> forward or drop
///
/// Model:   Policers first: suspects have records only while their destination's policer is
///          violated. A dropped packet ends at the first culprit.
/// Tests:   tests/apps/guard/program_test.cc, tests/apps/guard/flood_test.cc
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "apps/counting.h"
#include "apps/guard/packet_facts.h"
#include "apps/guard/state.h"
#include "microcode/machine.h"
#include "timers/periodic_timers.h"

namespace tributary::guard {

inline constexpr microcode::Instruction kLookUpSource{"look_up_source", {.register_reads = 4}};
inline constexpr microcode::Instruction kMeterDestination{"meter_destination",
                                                          {.register_reads = 4}};
inline constexpr microcode::Instruction kTrackSuspect{"track_suspect",
                                                      {.register_reads = 4, .register_writes = 1}};
inline constexpr microcode::Instruction kJudgeRecords{"judge_records",
                                                      {.register_reads = 2, .register_writes = 2}};
/// Executed for each flow that a scan has found.
inline constexpr microcode::Instruction kJudgeFlow{"judge_flow",
                                                   {.register_reads = 4, .register_writes = 2}};
inline constexpr microcode::Instruction kExpireRecord{"expire_record", {.register_reads = 2}};

/// Records that one scan transaction visits. Source: Trio paper §5, one word of REF flags.
inline constexpr uint32_t kRecordsPerScan = 64;

/// Drops a packet with broken headers, or forwards it in a dry run.
template <microcode::Machine M>
void end_broken(M& m, GuardState& state, Outcome outcome) {
  if (!state.config().dry_run) return apps::refuse(m, state, outcome);
  apps::count(m, state, Outcome::kWouldDrop, m.packet_size());
  m.forward();
}

/// Ends a packet that the guard cannot judge.
template <microcode::Machine M>
void end_misfit(M& m, GuardState& state, apps::FlowFit fit) {
  switch (fit) {
    case apps::FlowFit::kNotIp:  // Such as ARP, without which IP does not work.
    case apps::FlowFit::kTooManyTags:
      apps::count(m, state, Outcome::kNotIp, m.packet_size());
      m.forward();
      return;
    case apps::FlowFit::kNotFrame:
      return apps::refuse(m, state, Outcome::kNotFrame);
    case apps::FlowFit::kBadIpHeader:
      return end_broken(m, state, Outcome::kBadIpHeader);
    case apps::FlowFit::kTruncated:
    case apps::FlowFit::kHeadersTooLong:  // read_packet() returns neither this nor kFits here.
    case apps::FlowFit::kFits:
      return end_broken(m, state, Outcome::kTruncated);
  }
}

/// Returns the outcome of a packet that a culprit of `level` treats. @pre treatment is not kPass.
[[nodiscard]] inline Outcome outcome_of(Treatment treatment, Level level, bool dry_run) {
  if (treatment == Treatment::kPoliced) return Outcome::kPoliced;
  if (treatment == Treatment::kKept) return Outcome::kKept;
  if (dry_run) return Outcome::kWouldDrop;
  if (level == Level::kSource) return Outcome::kDroppedSource;
  return level == Level::kNetwork ? Outcome::kDroppedNetwork : Outcome::kDroppedDestination;
}

[[nodiscard]] constexpr bool is_drop(Outcome outcome) {
  return outcome == Outcome::kDroppedSource || outcome == Outcome::kDroppedNetwork ||
         outcome == Outcome::kDroppedDestination;
}

/// Tells whether a TCP segment completes a handshake. Reads the word first, because a segment of
/// another connection must not take it. A SYN that replaces the word in between is lost; then its
/// source becomes known later.
template <microcode::Machine M>
microcode::Subroutine<Handshakes::Completion, M> complete_handshake(M& m, GuardState& state,
                                                                    const PacketFacts& facts,
                                                                    Instant at) {
  const Handshakes::Place place = state.handshakes().place_of(facts);
  const uint64_t word = co_await memory::xtxn_read(m, *place.word);
  if (!Handshakes::is_of(place, word)) co_return Handshakes::Completion{};
  const uint64_t taken = co_await memory::xtxn_fetch_and_clear(m, *place.word, ~uint64_t{0});
  co_return state.handshakes().completion_of(place, taken, at);
}

/// Tells whether a SYN of the segment's connection is recorded.
[[nodiscard]] inline bool has_handshake(const GuardState& state, const PacketFacts& facts) {
  const Handshakes::Place place = state.handshakes().place_of(facts);
  return Handshakes::is_of(place, *place.word);
}

/// Returns the standing of a pair before its packet.
[[nodiscard]] inline SourceStanding standing_of(const KnownSources::Place& place, bool known) {
  return {.known = known,
          .proven = KnownSources::is_proven(place),
          .candidate_at = KnownSources::candidate_at(place)};
}

/// Tells whether a packet may complete a handshake that tells more about its source.
[[nodiscard]] inline bool may_complete(const SourceStanding& standing, const PacketFacts& facts) {
  return facts.kind == PacketKind::kTcp && !standing.proven;
}

/// Keeps a pair's marks for another generation.
template <microcode::Machine M>
void mark_fresh(M& m, const KnownSources::Place& place) {
  m.post(microcode::Xtxn{microcode::XtxnKind::kFetchAndOr, &place.word->fresh, sizeof(uint64_t)},
         [place] { KnownSources::mark_fresh(place); });
}

template <microcode::Machine M>
microcode::Subroutine<SourceStanding, M> look_up_source(M& m, GuardState& state,
                                                        const PacketFacts& facts, Instant at) {
  using microcode::Xtxn;
  using microcode::XtxnKind;
  m.instruction(kLookUpSource);
  const KnownSources::Place place = state.known_place_of(facts);
  SourceStanding standing =
      co_await m.issue(Xtxn{XtxnKind::kRead, place.word, sizeof(KnownSources::Word)},
                       [place] { return standing_of(place, KnownSources::is_known(place)); });
  if (standing.known) mark_fresh(m, place);
  if (!may_complete(standing, facts)) co_return standing;
  Handshakes::Completion handshake;
  if constexpr (M::kSuspends) {
    handshake = co_await complete_handshake(m, state, facts, at);
  } else {
    handshake = state.handshakes().complete(state.handshakes().place_of(facts), at);
  }
  if (handshake.done) {
    m.post(Xtxn{XtxnKind::kFetchAndOr, place.word, sizeof(KnownSources::Word)},
           [place] { KnownSources::mark_proven(place); });
    apps::count(m, state, Outcome::kSourceKnown);
    standing.known = true;
  }
  standing.handshake = handshake;
  co_return standing;
}

/// Return the request of a look-up in the record of a packet's destination, and in the record of
/// the SYNs of its source or network. A machine that suspends no thread has no price for it, so the
/// hash is left out.
template <microcode::Machine M>
[[nodiscard]] microcode::Xtxn look_up_destination(const GuardState& state,
                                                  const PacketFacts& facts) {
  if constexpr (!M::kSuspends) return {microcode::XtxnKind::kHashLookup, nullptr, 0};
  return state.destination_request(microcode::XtxnKind::kHashLookup, facts);
}
template <microcode::Machine M>
[[nodiscard]] microcode::Xtxn look_up_suspect(const GuardState& state, Level level,
                                              const PacketFacts& facts) {
  if constexpr (!M::kSuspends) return {microcode::XtxnKind::kHashLookup, nullptr, 0};
  return state.suspect_request(microcode::XtxnKind::kHashLookup, level, PacketKind::kTcpSyn, facts);
}

/// Takes back the SYN of a completed handshake from all flows that counted it, at a destination
/// whose SYNs violate their bandwidth. So parallel connections of a real client do not count.
template <microcode::Machine M>
microcode::Subroutine<bool, M> explain_syn(M& m, GuardState& state, const PacketFacts& facts,
                                           SourceStanding source, Instant at) {
  Handshakes::Completion handshake = source.handshake;
  if constexpr (M::kSuspends) {
    if (!handshake.done) handshake = co_await complete_handshake(m, state, facts, at);
  } else if (!handshake.done) {
    handshake = state.handshakes().complete(state.handshakes().place_of(facts), at);
  }
  if (!handshake.done) co_return false;
  for (const Level level : kSuspectLevels) {
    m.post(look_up_suspect<M>(state, level, facts),
           [&state, facts, level] { state.explain_at_suspect(level, facts); });
  }
  if (handshake.counted) {
    m.post(look_up_destination<M>(state, facts),
           [&state, facts] { state.explain_at_destination(facts); });
  }
  co_return true;
}

/// Finds or makes the record of a packet's source or network, and counts and polices the packet in
/// it. A timer may erase the record in between; the second service then makes it again.
/// @param violated Make the record if there is none.
template <microcode::Machine M>
microcode::Subroutine<SuspectVerdict, M> track_suspect(M& m, GuardState& state,
                                                       const PacketFacts& facts, Level level,
                                                       bool violated, Instant at) {
  using microcode::XtxnKind;
  const XtxnKind kind = violated ? XtxnKind::kHashInsert : XtxnKind::kHashLookup;
  const FoundFlow found = co_await m.issue(state.suspect_request(kind, level, facts.kind, facts),
                                           [&state, &facts, level, violated, at] {
                                             return state.find_suspect(level, facts, violated, at);
                                           });
  if (found.policer == nullptr) co_return SuspectVerdict{.tracked = !found.store_full};
  co_return co_await m.issue(
      microcode::Xtxn{XtxnKind::kPolice, found.policer, memory::kPolicerBytes},
      [&state, &facts, level, violated, at] { return state.track(level, facts, violated, at); });
}

/// Asks the records of the packet's source and, unless the source is known, of its network. While
/// the destination is violated, sources and networks without records get them. If a known source
/// finds none, its packet counts as one of an unknown source, because otherwise no record would
/// judge it. Packets of unknown sources that pass count at their destination.
/// @return kForwarded, or the outcome of the culprit's treatment.
template <microcode::Machine M>
microcode::Subroutine<Outcome, M> ask_suspects(M& m, GuardState& state, const PacketFacts& facts,
                                               const DestinationVerdict& destination, Instant at) {
  const bool violated = destination.violated;
  bool known = destination.known;
  bool untracked = false;
  for (const Level level : kSuspectLevels) {
    if (level == Level::kNetwork && known) break;
    m.instruction(kTrackSuspect);
    SuspectVerdict verdict;
    if constexpr (M::kSuspends) {
      verdict = co_await track_suspect(m, state, facts, level, violated, at);
    } else {
      verdict = state.track(level, facts, violated, at);
    }
    if (!verdict.tracked) known = false;
    if (!verdict.tracked && !std::exchange(untracked, true)) {
      apps::count(m, state, Outcome::kSuspectUntracked);
    }
    if (verdict.treatment != Treatment::kPass) {
      co_return outcome_of(verdict.treatment, level, state.config().dry_run);
    }
  }
  if (!violated || known) co_return Outcome::kForwarded;
  const Treatment treatment = destination.if_untracked;
  m.post(look_up_destination<M>(state, facts),
         [&state, facts, treatment] { state.count_unexplained(facts, treatment); });
  if (treatment == Treatment::kPass) co_return Outcome::kForwarded;
  co_return outcome_of(treatment, Level::kDestination, state.config().dry_run);
}

/// Records the handshake that a forwarded SYN opens, or what another packet tells about its source.
template <microcode::Machine M>
void learn(M& m, GuardState& state, const PacketFacts& facts, const DestinationVerdict& destination,
           Instant at) {
  using microcode::Xtxn;
  using microcode::XtxnKind;
  if (facts.kind == PacketKind::kTcpSyn) {
    const Handshakes::Place handshake = state.handshakes().place_of(facts);
    m.post(Xtxn{XtxnKind::kWrite, handshake.word, sizeof(uint64_t)},
           [handshake, known = destination.known, at] { Handshakes::open(handshake, !known, at); });
    return;
  }
  if (destination.learning == Learning::kNothing) return;
  const KnownSources::Place place = state.known_place_of(facts);
  const bool settles = destination.learning == Learning::kSettle;
  m.post(Xtxn{settles ? XtxnKind::kFetchAndOr : XtxnKind::kWrite, place.word,
              sizeof(KnownSources::Word)},
         [place, settles, settle_time = state.config().settle_time, at] {
           if (settles) return KnownSources::mark_settled(place);
           KnownSources::nominate(place, settle_time, at);
         });
  if (settles) apps::count(m, state, Outcome::kSourceKnown);
}

/// Ends a packet that needs no judgement. @return whether it has.
template <microcode::Machine M>
bool end_unjudged(M& m, GuardState& state, const PacketFacts& facts, apps::FlowFit fit) {
  if (fit != apps::FlowFit::kFits) {
    end_misfit(m, state, fit);
    return true;
  }
  if (!is_allowed(state.config(), facts.source, facts.ip_version)) return false;
  apps::count(m, state, Outcome::kAllowed, m.packet_size());
  m.forward();
  return true;
}

/// Counts the events of a destination's verdict.
template <microcode::Machine M>
void count_verdict(M& m, GuardState& state, const DestinationVerdict& destination) {
  if (!destination.tracked) apps::count(m, state, Outcome::kDestinationUntracked);
  if (destination.violation_began) apps::count(m, state, Outcome::kViolation);
}

/// Tells whether a packet takes back a SYN: see explain_syn().
[[nodiscard]] inline bool explains_syn(const PacketFacts& facts,
                                       const DestinationVerdict& destination) {
  return facts.kind == PacketKind::kTcp && destination.known && destination.syn_violated;
}

/// Tells whether the packet goes on to the records of its source and network.
[[nodiscard]] inline bool asks_suspects(const DestinationVerdict& destination) {
  return destination.treatment == Treatment::kPass &&
         (destination.violated || destination.has_culprits);
}

/// Forwards or drops the packet, and counts it.
/// @param outcome Outcome of ask_suspects(), or kForwarded if they were not asked.
template <microcode::Machine M>
void end_packet(M& m, GuardState& state, const PacketFacts& facts,
                const DestinationVerdict& destination, Outcome outcome, Instant at) {
  if (destination.treatment != Treatment::kPass) {
    outcome = outcome_of(destination.treatment, Level::kDestination, state.config().dry_run);
  }
  if (is_drop(outcome)) return apps::refuse(m, state, outcome);
  if (outcome == Outcome::kForwarded && destination.spared) outcome = Outcome::kKnown;
  // A dropped SYN would have opened no handshake, so a dry run does not learn from it either.
  if (outcome != Outcome::kWouldDrop) learn(m, state, facts, destination, at);
  apps::count(m, state, outcome, m.packet_size());
  m.forward();
}

/// Finds or makes the record of the packet's destination, and meters the packet there. A timer may
/// erase the record in between; the second service then makes it again.
template <microcode::Machine M>
microcode::Subroutine<DestinationVerdict, M> meter_destination(M& m, GuardState& state,
                                                               const PacketFacts& facts,
                                                               SourceStanding source, Instant at) {
  using microcode::XtxnKind;
  m.instruction(kMeterDestination);
  const FoundFlow found =
      co_await m.issue(state.destination_request(XtxnKind::kHashInsert, facts),
                       [&state, &facts, at] { return state.find_destination(facts, at); });
  if (found.policer == nullptr) {
    co_return DestinationVerdict{.tracked = false, .known = source.known};
  }
  co_return co_await m.issue(
      microcode::Xtxn{XtxnKind::kPolice, found.policer, memory::kPolicerBytes},
      [&state, &facts, &source, at] { return state.meter(facts, source, at); });
}

/// Runs the thread for one packet.
template <microcode::Machine M>
microcode::Thread guard_packet(M& m, GuardState& state) {
  PacketFacts facts;
  const apps::FlowFit fit = read_packet(m, facts);
  if (end_unjudged(m, state, facts, fit)) co_return;
  const Instant at = m.arrived_at();
  const SourceStanding source = co_await look_up_source(m, state, facts, at);
  const DestinationVerdict destination = co_await meter_destination(m, state, facts, source, at);
  count_verdict(m, state, destination);
  if (explains_syn(facts, destination)) {
    co_await explain_syn(m, state, facts, source, at);
  }
  Outcome outcome = Outcome::kForwarded;
  if (asks_suspects(destination)) {
    outcome = co_await ask_suspects(m, state, facts, destination, at);
  }
  end_packet(m, state, facts, destination, outcome, at);
}

/// Runs the steps of guard_packet() in one go, on a machine that suspends no thread. Its rare
/// subroutines run to their end when they are called.
template <microcode::Machine M>
void guard_in_place(M& m, GuardState& state) {
  std::optional<GuardNote> own;
  const GuardNote* note = state.notes().next(m.head().bytes());
  if (note == nullptr) {
    note = &own.emplace();
    own->fit = read_packet(m, own->facts);
    if (own->fit == apps::FlowFit::kFits) {
      own->place = state.known_place_of(own->facts);
    }
  }
  const PacketFacts& facts = note->facts;
  if (end_unjudged(m, state, facts, note->fit)) return;
  const Instant at = m.arrived_at();
  SourceStanding source = standing_of(note->place, KnownSources::look(note->place));
  if (may_complete(source, facts) && has_handshake(state, facts)) [[unlikely]] {
    source = look_up_source(m, state, facts, at).await_resume();
  }
  const DestinationVerdict destination = state.meter(facts, source, at);
  count_verdict(m, state, destination);
  if (explains_syn(facts, destination)) [[unlikely]] {
    explain_syn(m, state, facts, source, at).await_resume();
  }
  Outcome outcome = Outcome::kForwarded;
  if (asks_suspects(destination)) [[unlikely]] {
    outcome = ask_suspects(m, state, facts, destination, at).await_resume();
  }
  end_packet(m, state, facts, destination, outcome, at);
}

/// Counts the changes that a timer thread made.
template <microcode::Machine M>
void count_events(M& m, GuardState& state, const ScanEvents& events) {
  if (events.detected > 0) apps::count(m, state, Outcome::kDetected, 0, events.detected);
  if (events.recovered > 0) apps::count(m, state, Outcome::kRecovered, 0, events.recovered);
  if (events.timed_out > 0) apps::count(m, state, Outcome::kTimedOut, 0, events.timed_out);
  if (events.expired > 0) apps::count(m, state, Outcome::kExpired, 0, events.expired);
}

/// Judges the flows of a destination one after the other, and erases its idle record.
/// @param idle No packet has referenced the record since the previous scan.
template <microcode::Machine M>
microcode::Subroutine<void, M> judge_destination(M& m, GuardState& state, uint32_t slot, bool idle,
                                                 Instant now) {
  bool suspected = false;
  for (uint32_t i = 0; i < kKindCount; i++) {
    const auto kind = static_cast<PacketKind>(i);
    m.instruction(kJudgeFlow);
    const Judgement judgement = co_await m.issue(
        state.destination_judgement(slot, kind),
        [&state, slot, kind, now] { return state.judge_destination(slot, kind, now); });
    count_events(m, state, judgement.events);
    suspected = suspected || judgement.suspected;
  }
  if (!idle || suspected) co_return;
  m.instruction(kExpireRecord);
  const bool expired = co_await m.issue(state.destination_deletion(slot), [&state, slot, now] {
    return state.expire_destination(slot, now);
  });
  if (expired) apps::count(m, state, Outcome::kExpired);
}

/// Judges a source or network, and erases its idle record. @param idle As above.
template <microcode::Machine M>
microcode::Subroutine<void, M> judge_suspect(M& m, GuardState& state, uint32_t slot, bool idle,
                                             Instant now) {
  m.instruction(kJudgeFlow);
  const Judgement judgement = co_await m.issue(state.suspect_judgement(slot), [&state, slot, now] {
    return state.judge_suspect(slot, now);
  });
  count_events(m, state, judgement.events);
  if (!idle || judgement.suspected) co_return;
  m.instruction(kExpireRecord);
  const bool expired = co_await m.issue(state.suspect_deletion(slot),
                                        [&state, slot] { return state.expire_suspect(slot); });
  if (expired) apps::count(m, state, Outcome::kExpired);
}

/// Runs a timer thread over destinations.
template <microcode::Machine M>
microcode::Thread judge_destinations(M& m, GuardState& state, timers::TimerSlice slice,
                                     Instant now) {
  for (uint32_t begin = slice.begin; begin < slice.end; begin += kRecordsPerScan) {
    m.instruction(kJudgeRecords);
    const uint32_t end = std::min(begin + kRecordsPerScan, slice.end);
    if constexpr (M::kSuspends) {
      const ScannedWord word =
          co_await m.issue(state.destination_scan(begin),
                           [&state, begin, end] { return state.scan_destinations(begin, end); });
      for (uint64_t live = word.live; live != 0; live &= live - 1) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(live));
        co_await judge_destination(m, state, begin + bit, (word.idle >> bit & 1) != 0, now);
      }
    } else {
      const ScanEvents events = co_await m.issue(
          state.destination_scan(begin),
          [&state, begin, end, now] { return state.judge_destinations(begin, end, now); });
      count_events(m, state, events);
    }
  }
}

/// Runs a timer thread over suspects.
template <microcode::Machine M>
microcode::Thread judge_suspects(M& m, GuardState& state, timers::TimerSlice slice, Instant now) {
  for (uint32_t begin = slice.begin; begin < slice.end; begin += kRecordsPerScan) {
    m.instruction(kJudgeRecords);
    const uint32_t end = std::min(begin + kRecordsPerScan, slice.end);
    if constexpr (M::kSuspends) {
      const ScannedWord word = co_await m.issue(state.suspect_scan(begin), [&state, begin, end] {
        return state.scan_suspects(begin, end);
      });
      for (uint64_t live = word.live; live != 0; live &= live - 1) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(live));
        co_await judge_suspect(m, state, begin + bit, (word.idle >> bit & 1) != 0, now);
      }
    } else {
      const ScanEvents events = co_await m.issue(
          state.suspect_scan(begin),
          [&state, begin, end, now] { return state.judge_suspects(begin, end, now); });
      count_events(m, state, events);
    }
  }
}

/// Runs a timer thread over the known sources.
template <microcode::Machine M>
microcode::Thread rotate_known(M& m, GuardState& state, timers::TimerSlice slice) {
  for (uint32_t begin = slice.begin; begin < slice.end; begin += kRecordsPerScan) {
    m.instruction(kJudgeRecords);
    const uint32_t end = std::min(begin + kRecordsPerScan, slice.end);
    co_await m.issue(
        microcode::Xtxn{microcode::XtxnKind::kFetchAndSwap, state.known().words() + begin,
                        (end - begin) * static_cast<uint32_t>(sizeof(KnownSources::Word))},
        [&state, begin, end] {
          state.rotate_known(begin, end);
          return true;
        });
  }
}

}  // namespace tributary::guard
