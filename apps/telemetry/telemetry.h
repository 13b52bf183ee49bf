// SPDX-License-Identifier: Apache-2.0
/// @file
/// Flow telemetry's state on one core: configuration, flow records, message buffers and counters.
/// The programs that work on it are program.h (packets) and expiry.h (timers).
///
/// Model:   One record for each flow, as in Juniper's inline flow monitoring. Records, hash buckets
///          and REF flags have addresses in DRAM, counters in SRAM. A full store refuses new flows
///          and counts their packets; it never evicts.
/// Threads: Belongs to one core. Services of XTXNs (marked so) run whole.
/// Errors:  One line that names the key and the allowed values. Packets only change counters().
/// Memory:  Taken in create() from shared memory and the heap; shared memory is not released.
/// Tests:   tests/apps/telemetry/
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "apps/burst_notes.h"
#include "apps/flow_key.h"
#include "apps/telemetry/flow_record.h"
#include "apps/telemetry/heavy_hitters.h"
#include "apps/telemetry/message_pool.h"
#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "memory/record_store.h"
#include "memory/shared_memory.h"
#include "memory/xtxn.h"
#include "timers/periodic_timers.h"
#include "wire/ipfix.h"

namespace tributary::telemetry {

/// The outcome of a packet. kAccounted: it is in exactly one exported record. All others: it is in
/// no record. Every packet is forwarded.
enum class Outcome : uint8_t {
  // Bytes are IP bytes, as in the records.
  kAccounted,
  kStoreFull,  ///< A new flow, and all records are taken.
  kIndexFull,  ///< A new flow, and its places in the hash index are taken.
  // Bytes are the frame's. Names and order as in FlowFit.
  kNotFrame,
  kNotIp,
  kTooManyTags,
  kBadIpHeader,
  kHeadersTooLong,
  kTruncated,
  kCount,
};
inline constexpr uint32_t kOutcomeCount = static_cast<uint32_t>(Outcome::kCount);

/// Returns "accounted", "store_full" and so on.
[[nodiscard]] const char* to_string(Outcome outcome);

/// Returns the outcome of a frame that does not fit. @pre fit is not kFits.
[[nodiscard]] constexpr Outcome outcome_of(apps::FlowFit fit) {
  return static_cast<Outcome>(static_cast<uint32_t>(Outcome::kNotFrame) +
                              static_cast<uint32_t>(fit) -
                              static_cast<uint32_t>(apps::FlowFit::kNotFrame));
}
static_assert(outcome_of(apps::FlowFit::kTruncated) == Outcome::kTruncated);

/// Limits. Assumed: kFlowsLimit is 512 MiB of records. The timeouts have a wider range than
/// Juniper's 10 s to 1,800 s, so that experiments in virtual time can be short.
inline constexpr uint32_t kFlowsLimit = 1 << 22;
inline constexpr Duration kTimeoutMin = milliseconds(1);
inline constexpr Duration kTimeoutMax = seconds(3600);
inline constexpr uint32_t kHeavyHittersLimit = 1000;
/// The largest message: the UDP payload of a jumbo frame.
inline constexpr uint32_t kMessageBytesLimit = 8952;

struct TelemetryConfig {
  uint32_t flows_max = 262'144;  ///< Records; 1 to kFlowsLimit.
  uint64_t hash_seed = 0;        ///< Live: random. Modelled: any constant.
  /// A flow without a packet for this long ends; it is found in (t, 2 t]. Default: Juniper's
  /// flow-inactive-timeout of an IPFIX template.
  Duration inactive_timeout = seconds(60);
  /// A flow that lasts this long is exported and continues; it is found in (t, 1.25 t]. Default:
  /// Juniper's flow-active-timeout of an IPFIX template.
  Duration active_timeout = seconds(60);
  /// Ends a flow at the first visit after a FIN or RST. Juniper's documented settings have timeouts
  /// only, so it is off.
  bool export_on_fin = false;
  uint32_t timer_threads = 100;       ///< 1 to timers::PeriodicTimers::kThreadCountMax.
  Endpoint collector;                 ///< Must be set.
  uint32_t message_bytes_max = 1400;  ///< wire::kIpfixMessageBytesMin to kMessageBytesLimit.
  uint32_t observation_domain = 0;    ///< One for each core: it has a sequence of its own.
  /// Nanoseconds since 1970 of Instant(), at the start: see set_epoch(). The exported times must
  /// stay below wire::kIpfixTimeMaxNs; times outside are clamped.
  int64_t epoch_ns = 0;
  uint32_t heavy_hitters = 10;  ///< 0 to kHeavyHittersLimit.
};

/// Checks a configuration. @return an Error for the first value that is not allowed.
[[nodiscard]] Result<void> check(const TelemetryConfig& config);

/// Counts exports. Written by services only.
struct ExportCounters {
  uint64_t records = 0;
  std::array<uint64_t, wire::kFlowEndReasonCount> records_by_reason{};
  memory::PacketByteCounter exported;  ///< Packets and IP bytes in the records.
  uint64_t messages = 0;
  uint64_t message_bytes = 0;
  uint64_t visits_without_buffer = 0;  ///< Every message buffer was in use; the records stay.
  uint64_t records_in_use = 0;         ///< Not removed: packets were in flight; the record stays.
};

/// The reply of a look-up or an insertion.
struct Admission {
  FlowSpan* span = nullptr;               ///< Null: not admitted.
  Outcome refusal = Outcome::kAccounted;  ///< Outcome of a refused insertion.
  // The span's words when the packet was admitted.
  uint64_t first_at = 0;
  uint64_t last_at = 0;
  uint64_t tcp_flags = 0;
};

/// The reply of a deletion: up to two spans, the older one first.
struct RemovedFlow {
  bool removed = false;
  uint32_t count = 0;
  std::array<FlowExport, 2> exports;
};

/// The reply to a timer thread's read of a record.
struct FlowAge {
  bool draining = false;
  uint64_t first_at = UINT64_MAX;  ///< Word of the first arrival; UINT64_MAX: no packet.
  uint64_t last_at = 0;            ///< Word of the latest; 0: the first packet is being counted.
  uint64_t tcp_flags = 0;
};

/// A packet as read before its thread begins.
struct FlowNote {
  apps::FlowPacket packet;
  apps::FlowFit fit = apps::FlowFit::kNotFrame;
  uint64_t hash = 0;  ///< Set if fit is kFits.
};

class TelemetryState {
 public:
  using Counters = std::array<memory::PacketByteCounter, kOutcomeCount>;

  /// @param start The timers' first round begins here.
  [[nodiscard]] static Result<std::unique_ptr<TelemetryState>> create(memory::SharedMemory& memory,
                                                                      const TelemetryConfig& config,
                                                                      Instant start);

  [[nodiscard]] const TelemetryConfig& config() const { return config_; }
  [[nodiscard]] Counters& counters() { return shared_->counters; }
  [[nodiscard]] const ExportCounters& exports() const { return exports_; }
  [[nodiscard]] const HeavyHitters& heavy_hitters() const { return heavy_hitters_; }
  /// Returns the number of flows that have a record.
  [[nodiscard]] uint32_t flow_count() const { return store_.size(); }

  // --- For the engine, between bursts ------------------------------------------------------------

  void begin_burst() { pool_.all_released(); }
  /// Sets the time of day of Instant(), for all later exports. Call it when the system clock was
  /// set. @param epoch_ns Nanoseconds since 1970; 0 to wire::kIpfixTimeMaxNs.
  void set_epoch(int64_t epoch_ns);
  [[nodiscard]] apps::BurstNotes<FlowNote>& notes() { return notes_; }
  [[nodiscard]] uint64_t hash_of(const apps::FlowKey& key) const { return store_.hash_of(key); }
  /// Prefetches the place of a flow in the hash index. @return hash_of(key)
  uint64_t prefetch_index(const apps::FlowKey& key) const {
    const uint64_t hash = store_.hash_of(key);
    store_.prefetch_index(hash);
    return hash;
  }
  /// Prefetches the record of a flow. @pre prefetch_index(), some time before.
  void prefetch_record(uint64_t hash) const { store_.prefetch_record(hash); }
  [[nodiscard]] timers::PeriodicTimers& idle_timers() { return idle_timers_; }
  [[nodiscard]] timers::PeriodicTimers& age_timers() { return age_timers_; }
  [[nodiscard]] Instant next_due() const {
    return std::min(idle_timers_.next_due(), age_timers_.next_due());
  }

  // --- Targets of XTXNs --------------------------------------------------------------------------

  /// Returns the request of a hash operation on a flow.
  [[nodiscard]] microcode::Xtxn hash_request(microcode::XtxnKind kind,
                                             const apps::FlowKey& key) const {
    return memory::hash_request(kind, store_, key);
  }
  /// Returns the request of a hash operation on the flow in a slot.
  [[nodiscard]] microcode::Xtxn hash_request_at(microcode::XtxnKind kind, uint32_t slot) const {
    return memory::hash_request(kind, store_, store_.key_at(slot));
  }
  [[nodiscard]] const std::byte* ref_flag_of(uint32_t slot) const {
    return store_.ref_flag_of(slot);
  }
  /// @pre The slot has held a flow.
  [[nodiscard]] FlowRecord& record_at(uint32_t slot) { return store_.at(slot); }
  [[nodiscard]] uint64_t& sequence() { return shared_->sequence; }
  [[nodiscard]] MessagePool& pool() { return pool_; }
  [[nodiscard]] uint64_t& pool_word() { return shared_->pool; }

  // --- Services of XTXNs -------------------------------------------------------------------------

  /// Looks a flow up, sets its REF flag and admits a packet to its current span.
  [[nodiscard]] Admission admit(const apps::FlowKey& key) { return admit(key, hash_of(key)); }
  /// Admits a packet to a flow whose hash the caller knows. @param hash hash_of(key)
  [[nodiscard]] Admission admit(const apps::FlowKey& key, uint64_t hash) {
    FlowRecord* const record = store_.lookup(key, hash);
    return record == nullptr ? Admission{} : admit_to(*record);
  }
  /// Makes a record for the flow and admits its first packet. If another thread has made the record
  /// in the meantime, this is admit().
  [[nodiscard]] Admission insert(const apps::FlowKey& key, uint64_t arrived_at);
  /// Tests and clears the REF flags of [begin, end), at most one word. @return the idle slots, bit
  /// 0 for `begin`.
  [[nodiscard]] uint64_t scan_idle(uint32_t begin, uint32_t end);
  /// Returns the live slots of the word from `begin` on.
  [[nodiscard]] uint64_t live_mask(uint32_t begin) const { return store_.live_mask(begin); }
  /// Reads the current span of a slot's record.
  [[nodiscard]] FlowAge age_of(uint32_t slot);
  /// Removes the flow of a slot, and returns its spans to export, for one of these reasons:
  /// - kIdle: its REF flag is clear;
  /// - kEndOfFlow: a FIN or RST is among its flags;
  /// - kForcedEnd.
  /// Keeps the record if the reason no longer holds, if a packet is in flight or if another thread
  /// exports it.
  [[nodiscard]] RemovedFlow remove(uint32_t slot, wire::FlowEndReason reason);
  /// Returns a copy of a span, with its flow's key. @pre The caller has set kExporting.
  [[nodiscard]] FlowExport copy_span(uint32_t slot, const FlowSpan& span) const;
  /// Counts an exported span, and notes its flow's total.
  void note_export(const FlowExport& flow);
  void note_message(uint32_t bytes);
  void note_visit_without_buffer() { exports_.visits_without_buffer++; }

  /// Converts to the wire's form.
  [[nodiscard]] wire::IpfixFlow to_ipfix(const FlowExport& flow) const;
  /// Returns nanoseconds since 1970, clamped to what IPFIX can express.
  [[nodiscard]] int64_t since_1970_ns(Instant at) const;

 private:
  using Store = memory::RecordStore<apps::FlowKey, FlowRecord, apps::FlowKeyHash>;
  /// The part of the state that lies in SRAM.
  struct Shared {
    Counters counters;
    uint64_t sequence = 0;  ///< Records sent so far.
    uint64_t pool = 0;      ///< Stands for the list of free message buffers.
  };

  TelemetryState(const TelemetryConfig& config, const Store::Place& place, Shared* shared,
                 std::span<std::byte> buffers, const timers::PeriodicTimers& idle_timers,
                 const timers::PeriodicTimers& age_timers);
  [[nodiscard]] static Admission admit_to(FlowRecord& record) {
    FlowSpan& span = record.current();
    span.admitted++;
    return {.span = &span,
            .first_at = span.first_at,
            .last_at = span.last_at,
            .tcp_flags = span.tcp_flags};
  }

  const TelemetryConfig config_;
  Store store_;
  Shared* shared_;
  MessagePool pool_;
  timers::PeriodicTimers idle_timers_;
  timers::PeriodicTimers age_timers_;
  ExportCounters exports_;
  HeavyHitters heavy_hitters_;
  apps::BurstNotes<FlowNote> notes_;
  int64_t epoch_ns_;
};

}  // namespace tributary::telemetry
