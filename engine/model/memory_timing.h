// SPDX-License-Identifier: Apache-2.0
/// @file
/// The timing of a memory request: crossbar, bank with its RMW engine, and the memory behind the
/// bank (Trio paper §2.3). See docs/model.md.
///
/// Fidelity: exact serves requests in order of arrival (memory/rmw_bank.h); burst reserves the
///           banks' time (slot_ledger.h).
/// Omitted:  The bandwidth of DRAM behind its cache, and of the crossbar itself, which "will never
///           limit the memory performance" (§2.3).
/// Threads:  One.
/// Memory:   4 bytes a cache line; one entry for each target outside shared memory (kOutsideMax).
/// Tests:    tests/engine/model/memory_timing_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/model/latency_parts.h"
#include "engine/model/parameters.h"
#include "engine/model/slot_ledger.h"
#include "memory/rmw_bank.h"
#include "memory/shared_memory.h"
#include "microcode/machine.h"

namespace tributary::engine {

/// The timing of one request.
struct MemoryReply {
  Instant done_at;         ///< When the reply is at the PPE.
  Duration queued;         ///< Part of the time: waiting behind other requests.
  Duration crossbar_held;  ///< Part of `queued`: in the crossbar, while the bank's queue is full.
  LatencyPart part;        ///< The kind of memory that took the rest of the time.
};

/// PPE --crossbar_latency--> bank (one request at a time) --rest of the latency--> PPE.
///
/// - The rest depends on the address: SRAM, cached off-chip memory, or off-chip memory itself.
/// - The cache is direct-mapped, in lines of 64 bytes, and loads a line on a miss (assumed: the
///   paper states only its size).
/// - A bank queues up to bank_queue_requests; further requests wait in the crossbar.
/// - A hash operation visits the buckets of its key (memory/hash_buckets.h). The reply takes the
///   time of one bucket after the other, and hash_latency; the banks take the requests at the time
///   of the first (assumed). A scan accesses the REF flags of 64 records.
/// - A target outside shared memory (a program's counter in host memory) counts as SRAM. Its first
///   use assigns it a bank, so no host address affects a result.
class MemoryTiming {
 public:
  struct Counters {
    uint64_t requests = 0;  ///< Requests of at most 64 bytes each.
    uint64_t bytes = 0;     ///< Over the crossbar.
    uint64_t cache_hits = 0;
    uint64_t cache_misses = 0;
    Duration busy;           ///< Time banks worked, summed over banks.
    Duration queued;         ///< Summed over requests.
    Duration crossbar_held;  ///< Summed over requests.
  };

  /// @pre check(parameters).
  MemoryTiming(const Parameters& parameters, const memory::SharedMemory& memory);

  /// Times an XTXN that a program issues at `at`. An XTXN of more than 64 bytes becomes several
  /// requests at once; the reply is complete with the last of them.
  /// @param train Number of equal packets, or records, that this request stands for. Their
  ///              requests_of() take the bank's time, but the reply waits only for the first.
  [[nodiscard]] MemoryReply access(const microcode::Xtxn& xtxn, Instant at, uint32_t train);

  /// Returns the requests of a train: one of each packet. A scan visits up to 64 records, so one
  /// scan may visit those of several packets.
  [[nodiscard]] static uint32_t requests_of(const microcode::Xtxn& xtxn, uint32_t train);

  /// Times a request for 32-bit adds to, or reads of, `size_bytes` at `target`.
  [[nodiscard]] MemoryReply access(memory::RmwKind kind, const void* target, uint32_t size_bytes,
                                   Instant at, uint32_t train);

  /// Times one request of a loop: whole words within the bytes of one engine, whose index `bank` is
  /// bank_of(address).
  [[nodiscard]] MemoryReply access_line(memory::RmwKind kind, memory::Address address,
                                        uint32_t bank, uint32_t size_bytes, Instant at,
                                        uint32_t train) {
    const Duration service = service_time(kind, size_bytes);
    const LatencyPart part = kind_of(address);
    const Instant arrived_at = at + parameters_.crossbar_latency;
    const Instant served_at =
        exact_ ? serve_exact({kind, address, size_bytes}, bank, arrived_at, train)
               : serve_burst(bank, arrived_at, service, train);
    busy_[bank] += service * train;
    if (for_timer_) [[unlikely]]
      timer_busy_[bank] += service * train;
    counters_.requests += train;
    counters_.bytes += uint64_t{size_bytes} * train;
    counters_.busy += service * train;
    const Duration queued = served_at - arrived_at - service;
    const Duration held = std::max(Duration(), queued - queue_limit_);
    counters_.queued += queued;
    counters_.crossbar_held += held;
    return {served_at + rest_latency_[static_cast<uint32_t>(part)], queued, held, part};
  }

  /// Returns the modelled address of a target: its own if it lies in shared memory, else the
  /// address assigned at its first use.
  [[nodiscard]] memory::Address address_of(const void* target);
  [[nodiscard]] uint32_t bank_of(memory::Address address) const {
    return static_cast<uint32_t>(address.value() / memory::kInterleaveBytes % bank_count_);
  }
  [[nodiscard]] Duration service_time(memory::RmwKind kind, uint32_t size_bytes) const {
    return parameters_.clock_period * memory::service_cycles(kind, size_bytes);
  }

  /// Returns how long the crossbar refuses another request for this target.
  [[nodiscard]] Duration backpressure(const void* target, Instant at);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] uint32_t bank_count() const { return bank_count_; }
  /// Returns the work queued at bank `index` at time `at`, and reserved from then on.
  [[nodiscard]] Duration backlog(uint32_t index, Instant at) const;
  /// Returns the time that bank `index` has worked.
  [[nodiscard]] Duration busy(uint32_t index) const { return busy_[index]; }
  /// Returns the part of busy() for requests of timer threads.
  [[nodiscard]] Duration timer_busy(uint32_t index) const { return timer_busy_[index]; }
  /// Returns the number of requests whose time the ledgers of kBurst could not reserve.
  [[nodiscard]] uint64_t overflow_count() const;
  /// Tells whether the next requests are those of a timer thread.
  void set_for_timer(bool for_timer) { for_timer_ = for_timer; }

 private:
  static constexpr uint32_t kCacheLineBytes = 64;
  /// Most targets outside shared memory that get an address of their own.
  static constexpr uint32_t kOutsideMax = 4096;

  /// Returns SRAM, cache hit or cache miss for an address; a miss loads its line into the cache.
  [[nodiscard]] LatencyPart kind_of(memory::Address address) {
    if (memory::SharedMemory::range_of(address) == memory::Range::kSram) return LatencyPart::kSram;
    const uint64_t line = (address - memory::kDramBase) / kCacheLineBytes;
    uint32_t& tag = cache_tags_[line & cache_line_mask_];
    const auto wanted = static_cast<uint32_t>(line + 1);
    if (tag == wanted) {
      counters_.cache_hits++;
      return LatencyPart::kDramCache;
    }
    tag = wanted;
    counters_.cache_misses++;
    return LatencyPart::kDram;
  }
  /// Returns when the bank has served the request, or the first request of a train.
  [[nodiscard]] Instant serve_burst(uint32_t bank, Instant arrived_at, Duration service,
                                    uint32_t train) {
    const Instant all_served_at = ledgers_[bank].reserve(arrived_at, service * train);
    return std::max(arrived_at + service, all_served_at - service * (train - 1));
  }
  /// Times the visit of all buckets of a hash operation. @pre xtxn.table is set.
  [[nodiscard]] MemoryReply visit_buckets(const microcode::Xtxn& xtxn, memory::RmwKind kind,
                                          Instant at, uint32_t train);
  [[nodiscard]] Instant serve_exact(const memory::RmwRequest& request, uint32_t bank,
                                    Instant arrived_at, uint32_t train);

  const Parameters parameters_;
  const memory::SharedMemory& memory_;
  const uint32_t bank_count_;
  const Duration queue_limit_;  ///< Work that a full bank queue holds.
  const bool exact_;
  /// From the bank back to the PPE. Indexed by LatencyPart; zero for parts that are no memory.
  std::array<Duration, kLatencyPartCount> rest_latency_{};

  std::vector<memory::RmwBank> banks_;  ///< Exact only; shape [bank_count].
  std::vector<SlotLedger> ledgers_;     ///< Burst only; shape [bank_count].
  std::vector<uint32_t> cache_tags_;    ///< Shape [lines]: the cached line's number + 1; 0: none.
  const uint64_t cache_line_mask_;
  std::unordered_map<const void*, uint32_t> outside_targets_;  ///< Looked up only, never iterated.
  std::vector<Duration> busy_;                                 ///< Shape [bank_count].
  std::vector<Duration> timer_busy_;                           ///< Shape [bank_count].
  bool for_timer_ = false;
  Counters counters_;
};

}  // namespace tributary::engine
