// SPDX-License-Identifier: Apache-2.0
#include "engine/model/memory_timing.h"

#include <algorithm>

#include "base/assert.h"
#include "memory/hash_buckets.h"

namespace tributary::engine {
namespace {

using memory::Address;
using memory::kInterleaveBytes;
using memory::kRequestBytesMin;
using memory::RmwKind;
using microcode::XtxnKind;

/// Records that a scan visits. Source: microcode/machine.h, kHashScan.
constexpr uint32_t kRecordsPerScan = 64;

RmwKind rmw_kind(XtxnKind kind) {
  switch (kind) {
    case XtxnKind::kRead:
    case XtxnKind::kHashLookup:
      return RmwKind::kRead;
    case XtxnKind::kWrite:
    case XtxnKind::kHashInsert:
    case XtxnKind::kHashDelete:
      return RmwKind::kWrite;
    case XtxnKind::kAdd32:
      return RmwKind::kAdd;
    default:
      return RmwKind::kOther;
  }
}

bool is_hash(XtxnKind kind) { return kind >= XtxnKind::kHashLookup && kind <= XtxnKind::kHashScan; }

}  // namespace

const char* to_string(LatencyPart part) {
  static constexpr std::array<const char*, kLatencyPartCount> kNames{
      "ingress", "dispatch", "instructions", "sram",       "dram_cache",
      "dram",    "hash",     "tail",         "bank_queue", "reorder"};
  return kNames[static_cast<uint32_t>(part)];
}

MemoryTiming::MemoryTiming(const Parameters& parameters, const memory::SharedMemory& memory)
    : parameters_(parameters),
      memory_(memory),
      bank_count_(parameters.rmw_engine_count),
      queue_limit_(parameters.clock_period *
                   memory::service_cycles(RmwKind::kAdd, memory::kRequestBytesMax) *
                   parameters.bank_queue_requests),
      exact_(parameters.fidelity == Fidelity::kExact),
      cache_tags_(parameters.dram_cache_bytes / kCacheLineBytes),
      cache_line_mask_(cache_tags_.size() - 1),
      busy_(bank_count_),
      timer_busy_(bank_count_) {
  const auto rest = [&](Duration latency) { return latency - parameters.crossbar_latency; };
  rest_latency_[static_cast<uint32_t>(LatencyPart::kSram)] = rest(parameters.sram_latency);
  rest_latency_[static_cast<uint32_t>(LatencyPart::kDram)] = rest(parameters.dram_latency);
  rest_latency_[static_cast<uint32_t>(LatencyPart::kDramCache)] =
      rest(parameters.dram_cache_latency);
  if (exact_) {
    banks_.assign(bank_count_, memory::RmwBank(parameters.clock_period));
  } else {
    ledgers_.assign(bank_count_, SlotLedger(service_time(RmwKind::kAdd, memory::kRequestBytesMax) *
                                            parameters.train_max));
  }
}

Address MemoryTiming::address_of(const void* target) {
  const Address address = memory_.address_of(target);
  if (!address.is_null()) return address;
  const auto known = outside_targets_.find(target);
  uint32_t number = 0;
  if (known != outside_targets_.end()) {
    number = known->second;
  } else if (outside_targets_.size() < kOutsideMax) {
    number = static_cast<uint32_t>(outside_targets_.size());
    outside_targets_.emplace(target, number);
  }
  return memory::kSramBase + uint64_t{number} * kInterleaveBytes;
}

Instant MemoryTiming::serve_exact(const memory::RmwRequest& request, uint32_t bank,
                                  Instant arrived_at, uint32_t train) {
  const memory::RmwReply first = banks_[bank].serve(arrived_at, request);
  TRIB_ASSERT(first.status == memory::RmwStatus::kOk);
  for (uint32_t i = 1; i < train; i++) (void)banks_[bank].serve(arrived_at, request);
  return first.done_at;
}

MemoryReply MemoryTiming::access(RmwKind kind, const void* target, uint32_t size_bytes, Instant at,
                                 uint32_t train) {
  // Requests are whole words of 8 bytes and never cross from one engine's bytes to another's.
  const uint64_t value = address_of(target).value();
  uint64_t begin = value - value % kRequestBytesMin;
  const uint64_t end =
      (value + size_bytes + kRequestBytesMin - 1) / kRequestBytesMin * kRequestBytesMin;
  // Times the piece from `begin` to `piece_end`. Most requests are one piece.
  const auto piece = [&](uint64_t piece_end) {
    const Address address(begin);
    return access_line(kind, address, bank_of(address), static_cast<uint32_t>(piece_end - begin),
                       at, train);
  };
  uint64_t boundary = (begin / kInterleaveBytes + 1) * kInterleaveBytes;
  if (begin < end && end <= boundary) return piece(end);
  MemoryReply last{at, Duration(), Duration(), LatencyPart::kSram};
  for (; begin < end; boundary += kInterleaveBytes) {
    const uint64_t piece_end = std::min(end, boundary);
    const MemoryReply reply = piece(piece_end);
    if (reply.done_at > last.done_at) last = reply;
    begin = piece_end;
  }
  return last;
}

uint32_t MemoryTiming::requests_of(const microcode::Xtxn& xtxn, uint32_t train) {
  if (xtxn.kind != XtxnKind::kHashScan) return train;
  const uint32_t records = std::max(xtxn.size_bytes / memory::kRefFlagBytes, 1U) * train;
  return (records + kRecordsPerScan - 1) / kRecordsPerScan;
}

MemoryReply MemoryTiming::access(const microcode::Xtxn& xtxn, Instant at, uint32_t train) {
  if (xtxn.kind == XtxnKind::kTailRead || xtxn.kind == XtxnKind::kTailWrite) {
    return {at + parameters_.tail_read_latency, Duration(), Duration(), LatencyPart::kTail};
  }
  const RmwKind kind = rmw_kind(xtxn.kind);
  const uint32_t requests = requests_of(xtxn, train);
  if (!is_hash(xtxn.kind)) {
    // Every operation moves at least one word; an empty one still takes a cycle.
    return access(kind, xtxn.target, std::max(xtxn.size_bytes, 1U), at, requests);
  }
  const uint32_t size_bytes = xtxn.kind == XtxnKind::kHashScan
                                  ? kRecordsPerScan * parameters_.ref_flag_bytes
                                  : std::max(xtxn.size_bytes, 1U);
  // The buckets first, then the record.
  const MemoryReply reply = xtxn.table == nullptr
                                ? access(kind, xtxn.target, size_bytes, at, requests)
                                : visit_buckets(xtxn, kind, at, requests);
  return {reply.done_at + parameters_.hash_latency, reply.queued, reply.crossbar_held,
          LatencyPart::kHash};
}

MemoryReply MemoryTiming::visit_buckets(const microcode::Xtxn& xtxn, RmwKind kind, Instant at,
                                        uint32_t train) {
  MemoryReply reply{at, Duration(), Duration(), LatencyPart::kHash};
  const uint32_t count = xtxn.table->chain_length(xtxn.target);
  for (uint32_t i = 0; i < count; i++) {
    const MemoryReply visit =
        access(kind, xtxn.table->chained(xtxn.target, i), memory::kHashBucketBytes, at, train);
    reply.done_at = reply.done_at + (visit.done_at - at);
    reply.queued += visit.queued;
    reply.crossbar_held += visit.crossbar_held;
  }
  return reply;
}

Duration MemoryTiming::backlog(uint32_t index, Instant at) const {
  if (exact_) return std::max(Duration(), banks_[index].busy_until() - at);
  return ledgers_[index].reserved_from(at);
}

uint64_t MemoryTiming::overflow_count() const {
  uint64_t count = 0;
  for (const SlotLedger& ledger : ledgers_) count += ledger.overflow_count();
  return count;
}

Duration MemoryTiming::backpressure(const void* target, Instant at) {
  const uint32_t bank = bank_of(address_of(target));
  const Instant arrived_at = at + parameters_.crossbar_latency;
  const Instant free_at =
      exact_ ? banks_[bank].busy_until() : ledgers_[bank].reserve(arrived_at, Duration());
  return std::max(Duration(), (free_at - arrived_at) - queue_limit_);
}

}  // namespace tributary::engine
