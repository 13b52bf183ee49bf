// SPDX-License-Identifier: Apache-2.0
/// @file
/// When a memory request is answered: crossbar, bank with its RMW engine, and the kind of memory
/// behind it (Trio paper §2.3).
///
/// Model:   PPE --crossbar_latency--> bank (one request at a time) --rest of the latency--> PPE.
///          The rest depends on where the address lies: SRAM, off-chip memory that its cache holds,
///          or off-chip memory itself. The cache is direct-mapped, in lines of 64 bytes, and takes
///          in what it missed (assumed: the paper gives its size only). A bank has room for
///          bank_queue_requests; more wait in the crossbar.
///          A hash operation takes hash_latency and then accesses its record; a scan accesses 64
///          records' REF flags.
/// Not modelled: the bandwidth of DRAM behind its cache and of the crossbar itself, which "will
///          never limit the memory performance" (§2.3).
/// Elsewhere: A target outside shared memory (a program's counter in host memory) counts as lying
///          in SRAM, at a bank given to it at its first use: no host address reaches a result.
/// Fidelity: exact serves requests in order of arrival (memory/rmw_bank.h); burst reserves the
///          banks' time (slot_ledger.h).
/// Threads: One.
/// Memory:  4 bytes for each line of the cache; one entry for each target outside shared memory, up
///          to kOutsideMax.
/// Tests:   tests/engine/model/memory_timing_test.cc
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

/// What one request meant.
struct MemoryReply {
  Instant done_at;         ///< The reply is at the PPE.
  Duration queued;         ///< Part of the time: behind other requests.
  Duration crossbar_held;  ///< Part of that: in the crossbar, the bank's queue being full.
  LatencyPart part;        ///< Which kind of memory the rest of the time was for.
};

class MemoryTiming {
 public:
  struct Counters {
    uint64_t requests = 0;  ///< Of at most 64 bytes.
    uint64_t bytes = 0;     ///< Over the crossbar.
    uint64_t cache_hits = 0;
    uint64_t cache_misses = 0;
    Duration busy;           ///< Banks at work, summed over them.
    Duration queued;         ///< Summed over requests.
    Duration crossbar_held;  ///< Likewise.
  };

  /// @pre check(parameters).
  MemoryTiming(const Parameters& parameters, const memory::SharedMemory& memory);

  /// An XTXN of a program that is issued at `at`. More than 64 bytes go as several requests at
  /// once; the reply is complete with the last of them.
  /// @param train Equal requests that this one stands for: they take the bank's time, the reply
  ///              does not wait for those behind the first.
  [[nodiscard]] MemoryReply access(const microcode::Xtxn& xtxn, Instant at, uint32_t train);

  /// A request for 32-bit adds to, or reads of, `size_bytes` at `target`.
  [[nodiscard]] MemoryReply access(memory::RmwKind kind, const void* target, uint32_t size_bytes,
                                   Instant at, uint32_t train);

  /// One request, whole words within the bytes of one engine, as a loop makes them one after the
  /// other: `bank` is bank_of(address).
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
    counters_.requests += train;
    counters_.bytes += uint64_t{size_bytes} * train;
    counters_.busy += service * train;
    const Duration queued = served_at - arrived_at - service;
    const Duration held = std::max(Duration(), queued - queue_limit_);
    counters_.queued += queued;
    counters_.crossbar_held += held;
    return {served_at + rest_latency_[static_cast<uint32_t>(part)], queued, held, part};
  }

  /// Where a target counts as lying: itself in shared memory, else where its first use put it.
  [[nodiscard]] memory::Address address_of(const void* target);
  [[nodiscard]] uint32_t bank_of(memory::Address address) const {
    return static_cast<uint32_t>(address.value() / memory::kInterleaveBytes % bank_count_);
  }
  [[nodiscard]] Duration service_time(memory::RmwKind kind, uint32_t size_bytes) const {
    return parameters_.clock_period * memory::service_cycles(kind, size_bytes);
  }

  /// For how long the crossbar would not take another request for this target.
  [[nodiscard]] Duration backpressure(const void* target, Instant at);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] uint32_t bank_count() const { return bank_count_; }
  /// Work that stands before bank `index` at `at`, and that others have reserved from then on.
  [[nodiscard]] Duration backlog(uint32_t index, Instant at) const;
  /// Time that bank `index` has worked.
  [[nodiscard]] Duration busy(uint32_t index) const { return busy_[index]; }

 private:
  static constexpr uint32_t kCacheLineBytes = 64;
  /// Targets outside shared memory that are told apart.
  static constexpr uint32_t kOutsideMax = 4096;

  /// Off-chip memory by its cache, which takes in what it did not have.
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
  /// When the bank is done with the request; with the first of a train.
  [[nodiscard]] Instant serve_burst(uint32_t bank, Instant arrived_at, Duration service,
                                    uint32_t train) {
    const Instant all_served_at = ledgers_[bank].reserve(arrived_at, service * train);
    return std::max(arrived_at + service, all_served_at - service * (train - 1));
  }
  [[nodiscard]] Instant serve_exact(const memory::RmwRequest& request, uint32_t bank,
                                    Instant arrived_at, uint32_t train);

  const Parameters parameters_;
  const memory::SharedMemory& memory_;
  const uint32_t bank_count_;
  const Duration queue_limit_;  ///< Work that a bank's queue holds.
  const bool exact_;
  /// From the bank back to the PPE; indexed by LatencyPart, zero where it is no memory.
  std::array<Duration, kLatencyPartCount> rest_latency_{};

  std::vector<memory::RmwBank> banks_;  ///< Exact only; shape [bank_count].
  std::vector<SlotLedger> ledgers_;     ///< Burst only; shape [bank_count].
  std::vector<uint32_t> cache_tags_;    ///< Shape [lines]: which line is there, plus 1; 0: none.
  const uint64_t cache_line_mask_;
  std::unordered_map<const void*, uint32_t> outside_;  ///< Looked up only, never walked.
  std::vector<Duration> busy_;                         ///< Shape [bank_count].
  Counters counters_;
};

}  // namespace tributary::engine
