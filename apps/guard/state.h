// SPDX-License-Identifier: Apache-2.0
/// @file
/// The guard's state on one core. program.h has the packet's thread and the timer threads.
///
/// Model:   A record for each destination has a policer and a tracker for each packet kind. While
///          one is violated, sources and networks of its packets have records, too. A spoofed
///          flood overflows those, so the destination's tracker judges it; see README.md.
/// Threads: Belongs to one core. Each function under "XTXNs" is the service of one transaction.
/// Errors:  create() refuses a bad configuration and a full shared memory. Full stores are
///          outcomes.
/// Memory:  All of it is taken in create(): the bound holds for any number of sources.
/// Tests:   tests/apps/guard/program_test.cc, tests/apps/guard/flood_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "apps/burst_notes.h"
#include "apps/guard/config.h"
#include "apps/guard/flow_tracker.h"
#include "apps/guard/known_sources.h"
#include "apps/guard/outcomes.h"
#include "apps/guard/report.h"
#include "memory/policer.h"
#include "memory/record_store.h"
#include "memory/shared_memory.h"
#include "memory/xtxn.h"
#include "timers/periodic_timers.h"

namespace tributary::guard {

/// Names the flow of a source or of a network.
struct SuspectKey {
  Address source{};  ///< Masked to the level's prefix.
  Address destination{};
  PacketKind kind{};
  Level level{};
  std::array<uint8_t, 6> padding{};  ///< Zero, so that equal keys have equal bytes.
  friend bool operator==(const SuspectKey&, const SuspectKey&) = default;
};
static_assert(sizeof(SuspectKey) == 40 && std::has_unique_object_representations_v<SuspectKey>);

struct SuspectKeyHash {
  uint64_t operator()(const SuspectKey& key, uint64_t seed) const;
};
struct AddressHash {
  uint64_t operator()(const Address& address, uint64_t seed) const;
};

/// One flow: its policer, tracker and entry in the report.
struct Flow {
  memory::Policer policer;  ///< A token is a packet.
  FlowTracker tracker;
  uint64_t report_number = 0;  ///< Valid while the flow is a culprit.
  bool is_counted = false;     ///< In DestinationRecord::Kind::culprits.
};

/// The flows to one destination from everywhere, one for each packet kind.
struct DestinationRecord {
  struct Kind {
    Flow flow;
    Instant red_at;         ///< When the policer was last red. Valid if `was_red`.
    Instant calm_at;        ///< When the traffic was last calm.
    Instant quiet_since;    ///< No violation from here to the present one, or to now.
    uint32_t culprits = 0;  ///< Sources and networks that are culprits at this destination.
    bool was_red = false;
  };
  std::array<Kind, kKindCount> kinds;  ///< Indexed by PacketKind.
};

/// Treatment of one packet by one flow.
enum class Treatment : uint8_t {
  kPass,     ///< The flow is no culprit.
  kPoliced,  ///< Culprit, within its bandwidth.
  kKept,     ///< Culprit whose action is keep.
  kDrop,
};

/// The standing of a packet's source at its destination, before the packet.
struct SourceStanding {
  bool known = false;                   ///< For packets of this kind. Or the packet makes it known.
  bool proven = false;                  ///< It has completed a handshake before the packet.
  std::optional<Instant> candidate_at;  ///< Its first packet, if it is a candidate.
  Handshakes::Completion handshake = {};
};

/// The effect of a forwarded packet on the knowledge about its source.
enum class Learning : uint8_t {
  kNothing,
  kNominate,  ///< The source becomes a candidate.
  kSettle,    ///< The traffic stayed calm after the candidate's first packet: it becomes known.
};

struct DestinationVerdict {
  Treatment treatment = Treatment::kPass;
  bool tracked = true;  ///< False: no record was left.
  bool spared = false;  ///< The destination's flow is a culprit, and the source is known.
  bool violated = false;
  bool has_culprits = false;  ///< Some source or network is a culprit.
  bool violation_began = false;
  bool syn_violated = false;  ///< The same destination's SYNs violate their bandwidth.
  bool known = false;         ///< The source is known.
  Learning learning = Learning::kNothing;
  /// Treatment of a known source that finds no record of its own.
  Treatment if_untracked = Treatment::kPass;
};

struct SuspectVerdict {
  Treatment treatment = Treatment::kPass;
  bool tracked = true;
};

/// The reply of a hash operation that finds or makes a record.
struct FoundFlow {
  const memory::Policer* policer = nullptr;  ///< Of the packet's flow; null: there is no record.
  bool store_full = false;                   ///< It could not be made.
};

/// Changes that a timer thread made in one transaction.
struct ScanEvents {
  uint32_t detected = 0;
  uint32_t recovered = 0;
  uint32_t timed_out = 0;
  uint32_t expired = 0;
};

/// The reply of a scan of REF flags. Bit 0 stands for the first slot.
struct ScannedWord {
  uint64_t live = 0;
  uint64_t idle = 0;  ///< The flag was already clear.
};

/// The reply of the judgement of one flow.
struct Judgement {
  ScanEvents events;
  bool suspected = false;  ///< The flow keeps its record.
};

/// A packet as read before its thread begins.
struct GuardNote {
  PacketFacts facts;
  apps::FlowFit fit = apps::FlowFit::kNotFrame;
  KnownSources::Place place;      ///< If it fits.
  uint64_t destination_hash = 0;  ///< If it fits.
};

class GuardState {
 public:
  /// Takes counters from SRAM; records, known sources and handshakes from DRAM.
  [[nodiscard]] static Result<std::unique_ptr<GuardState>> create(memory::SharedMemory& memory,
                                                                  const GuardConfig& config,
                                                                  Instant start);

  /// Returns the bytes of DRAM that create() takes, alignment included.
  [[nodiscard]] static uint64_t dram_bytes(const GuardConfig& config);

  [[nodiscard]] const GuardConfig& config() const { return config_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] apps::BurstNotes<GuardNote>& notes() { return notes_; }
  [[nodiscard]] const Report& report() const { return report_; }
  /// Sets Report's observer.
  void observe_culprits(Report::Observer observer) { report_.observe(std::move(observer)); }
  [[nodiscard]] const KnownSources& known() const { return known_; }
  [[nodiscard]] const Handshakes& handshakes() const { return handshakes_; }
  [[nodiscard]] KnownSources::Place known_place_of(const PacketFacts& facts) const {
    return known_.place_of(facts.source, facts.destination, facts.kind);
  }
  [[nodiscard]] uint32_t destination_count() const { return destinations_.size(); }
  [[nodiscard]] uint32_t suspect_count() const { return suspects_.size(); }

  /// Return the timers; their slices count destinations, suspects and words of known sources.
  [[nodiscard]] timers::PeriodicTimers& destination_timers() { return destination_timers_; }
  [[nodiscard]] timers::PeriodicTimers& suspect_timers() { return suspect_timers_; }
  [[nodiscard]] timers::PeriodicTimers& known_timers() { return known_timers_; }
  [[nodiscard]] Instant next_due() const;

  // --- Prefetching, for a packet that fits -------------------------------------------------------

  /// Completes a packet's note, and prefetches its known source's word and its destination's place
  /// in the hash index.
  void prefetch_index(GuardNote& note) const {
    note.place = known_place_of(note.facts);
    __builtin_prefetch(note.place.word, /*rw=*/1);
    note.destination_hash = destinations_.hash_of(note.facts.destination);
    destinations_.prefetch_index(note.destination_hash);
  }
  /// Prefetches the destination's record. @pre prefetch_index(), some time before.
  void prefetch_record(const GuardNote& note) const {
    destinations_.prefetch_record(
        note.destination_hash,
        static_cast<uint32_t>(note.facts.kind) * sizeof(DestinationRecord::Kind),
        sizeof(DestinationRecord::Kind));
  }

  // --- XTXNs -------------------------------------------------------------------------------------

  /// Finds the record of the packet's destination or makes it. @return the policer of its kind.
  FoundFlow find_destination(const PacketFacts& facts, Instant now);
  /// Finds the record of the packet's source or network. @param may_create Make it if there is
  /// none.
  FoundFlow find_suspect(Level level, const PacketFacts& facts, bool may_create, Instant now);
  /// Meters a packet at its destination, creates the record if needed, and tells the treatment.
  /// A culprit destination does not drop the packets of a known source that has a record.
  DestinationVerdict meter(const PacketFacts& facts, const SourceStanding& source, Instant now);
  /// Counts a packet that no known source explains. For packets that passed the suspects' records.
  /// @param treatment By the destination's flow.
  void count_unexplained(const PacketFacts& facts, Treatment treatment);
  /// Counts a packet in the record of its source or network, and tells the treatment.
  /// @param may_create Create the record if there is none.
  SuspectVerdict track(Level level, const PacketFacts& facts, bool may_create, Instant now);
  /// Take back one SYN of the packet's source or network, or at its destination, if they have
  /// records.
  void explain_at_suspect(Level level, const PacketFacts& facts);
  void explain_at_destination(const PacketFacts& facts);
  /// Judges the records of a slice, and erases the idle ones that are under no suspicion. One
  /// service for machines without a price; the services after it do the same step by step.
  ScanEvents judge_destinations(uint32_t begin, uint32_t end, Instant now);
  ScanEvents judge_suspects(uint32_t begin, uint32_t end, Instant now);
  /// Clears the REF flags of a slice of at most 64 records.
  ScannedWord scan_destinations(uint32_t begin, uint32_t end);
  ScannedWord scan_suspects(uint32_t begin, uint32_t end);
  /// Judges one flow. A slot that is free has none.
  Judgement judge_destination(uint32_t slot, PacketKind kind, Instant now);
  Judgement judge_suspect(uint32_t slot, Instant now);
  /// Erases the record of a slot unless it is under suspicion or referenced since the scan.
  /// @return whether it erased the record.
  bool expire_destination(uint32_t slot, Instant now);
  bool expire_suspect(uint32_t slot);
  void rotate_known(uint32_t begin, uint32_t end) { known_.rotate(begin, end); }

  // --- Requests, for their addresses -------------------------------------------------------------

  using XtxnKind = microcode::XtxnKind;
  /// Return the request of a hash operation on a record.
  [[nodiscard]] microcode::Xtxn destination_request(XtxnKind kind, const PacketFacts& facts) const {
    return memory::hash_request(kind, destinations_, facts.destination);
  }
  [[nodiscard]] microcode::Xtxn suspect_request(XtxnKind kind, Level level, PacketKind of,
                                                const PacketFacts& facts) const;
  /// Return the request of a scan of the REF flags from `begin` on.
  [[nodiscard]] microcode::Xtxn destination_scan(uint32_t begin) const {
    return {XtxnKind::kHashScan, destinations_.ref_flag_of(begin), memory::kRefFlagBytes};
  }
  [[nodiscard]] microcode::Xtxn suspect_scan(uint32_t begin) const {
    return {XtxnKind::kHashScan, suspects_.ref_flag_of(begin), memory::kRefFlagBytes};
  }
  /// Return the request of a judgement. @pre The slot has held a record.
  [[nodiscard]] microcode::Xtxn destination_judgement(uint32_t slot, PacketKind kind) const {
    const DestinationRecord::Kind& judged = destinations_.at(slot).kinds[static_cast<size_t>(kind)];
    return {XtxnKind::kFetchAndOp, &judged.flow.tracker, sizeof(FlowTracker)};
  }
  [[nodiscard]] microcode::Xtxn suspect_judgement(uint32_t slot) const {
    return {XtxnKind::kFetchAndOp, &suspects_.at(slot).tracker, sizeof(FlowTracker)};
  }
  /// Return the request of a deletion. @pre The slot has held a record.
  [[nodiscard]] microcode::Xtxn destination_deletion(uint32_t slot) const {
    return memory::hash_request(XtxnKind::kHashDelete, destinations_, destinations_.key_at(slot));
  }
  [[nodiscard]] microcode::Xtxn suspect_deletion(uint32_t slot) const {
    return memory::hash_request(XtxnKind::kHashDelete, suspects_, suspects_.key_at(slot));
  }

 private:
  using Destinations = memory::RecordStore<Address, DestinationRecord, AddressHash>;
  using Suspects = memory::RecordStore<SuspectKey, Flow, SuspectKeyHash>;
  /// The parts that can fail, made before the state.
  struct Parts {
    Counters* counters;
    std::span<KnownSources::Word> known;
    std::span<uint64_t> handshakes;
    Destinations::Place destinations;
    Suspects::Place suspects;
    timers::PeriodicTimers destination_timers;
    timers::PeriodicTimers suspect_timers;
    timers::PeriodicTimers known_timers;
  };

  GuardState(const GuardConfig& config, const Parts& parts);
  void make_policers();
  /// Finds the record, or makes it with full policers. @return null: no record is left.
  DestinationRecord* admit(const Address& destination, Instant now);
  /// Likewise. Without `may_create` it only looks for the record.
  Flow* admit(const SuspectKey& key, bool may_create, Instant now);
  /// Returns the treatment of a packet by a flow.
  [[nodiscard]] static Treatment treatment_of(Action action, memory::Colour colour,
                                              const Flow& flow);
  /// Returns treatment_of(), and counts a drop.
  [[nodiscard]] static Treatment treat(Action action, memory::Colour colour, Flow& flow);
  [[nodiscard]] Terms terms_of(Level level, PacketKind kind) const;
  [[nodiscard]] bool is_violated(const DestinationRecord::Kind& kind, Instant now) const;
  /// Tells whether a violation could make candidates doubtful. Such a record is not erased.
  [[nodiscard]] bool was_violated_lately(const DestinationRecord::Kind& kind, Instant now) const;
  [[nodiscard]] bool is_calm(const Flow& flow, PacketKind kind) const;
  [[nodiscard]] Learning learn(const DestinationRecord::Kind& kind, const SourceStanding& source,
                               bool violated, Instant now) const;
  Change judge(Flow& flow, Culprit subject, const Terms& terms, ScanEvents& events, Instant now);
  void judge_kind(const Address& destination, PacketKind kind, DestinationRecord::Kind& judged,
                  ScanEvents& events, Instant now);
  void judge_flow(const SuspectKey& key, Flow& flow, ScanEvents& events, Instant now);
  [[nodiscard]] bool is_suspected(const DestinationRecord::Kind& kind, Instant now) const;
  [[nodiscard]] bool is_suspected(const DestinationRecord& record, Instant now) const;
  void forgive_wider(const SuspectKey& key, Instant now);
  void count_culprit(const SuspectKey& key, Flow& flow);
  void uncount_culprit(const SuspectKey& key, Flow& flow);

  const GuardConfig config_;
  Counters& counters_;
  KnownSources known_;
  Handshakes handshakes_;
  std::array<std::array<memory::Policer, kKindCount>, kLevelCount> policers_;  ///< Full ones.
  Destinations destinations_;
  Suspects suspects_;
  timers::PeriodicTimers destination_timers_;
  timers::PeriodicTimers suspect_timers_;
  timers::PeriodicTimers known_timers_;
  Report report_;
  apps::BurstNotes<GuardNote> notes_;
};

}  // namespace tributary::guard
