// SPDX-License-Identifier: Apache-2.0
/// @file
/// The records of Trio-ML as they lie in shared memory. Field names are those of the Trio paper
/// (Figures 17 and 18); what a server needs beyond them says why it is there.
///
/// Threads: A record belongs to one shard (one core). Inside a machine that interleaves threads, a
///          field marked RMW is changed only by XTXNs; the others are written before the record can
///          be found and stay as they are.
/// Tests:   tests/apps/trio_ml/block_window_test.cc
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/mutant.h"
#include "base/time.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

using wire::SourceMask;

inline void include(SourceMask& mask, uint32_t source) {
  mask[source / 64] |= uint64_t{1} << (source % 64);
}
inline void exclude(SourceMask& mask, uint32_t source) {
  mask[source / 64] &= ~(uint64_t{1} << (source % 64));
}
[[nodiscard]] inline bool contains(const SourceMask& mask, uint32_t source) {
  return (mask[source / 64] >> (source % 64) & 1) != 0;
}
/// Word by word, for the reason that is_complete() gives.
[[nodiscard]] inline bool is_same(const SourceMask& a, const SourceMask& b) {
  for (uint32_t i = 0; i < a.size(); i++) {
    if (a[i] != b[i]) return false;
  }
  return true;
}
[[nodiscard]] uint32_t count(const SourceMask& mask);
/// The sources 0 … source_count-1.
[[nodiscard]] SourceMask first_sources(uint32_t source_count);

enum class BlockPhase : uint8_t {
  kFree,
  kAggregating,
  kSentUp,      ///< Complete here; the upper aggregator's result is awaited.
  kPublishing,  ///< That result is here and being prepared.
};

/// What one contribution adds to a record beside its payload.
struct Contribution {
  uint16_t src_cnt = 1;  ///< Ranks in it: 1 from a worker, more from a lower aggregator.
  int8_t exponent = -128;
  uint8_t flags = 0;
  bool final = false;
  bool degraded = false;

  /// Whether it says nothing but how many ranks are in it.
  [[nodiscard]] bool is_plain() const {
    const int marks =
        (exponent + 128) | flags | static_cast<int>(final) | static_cast<int>(degraded);
    return marks == 0;
  }
};

/// A block being aggregated (Trio paper Figure 18).
struct alignas(64) BlockRecord {
  uint32_t place = 0;  ///< Index of this record in its window; never changes.

  // Written when the place is taken; then constant until it is free again.
  uint32_t block_id = 0;
  uint64_t generation =
      0;  ///< Orders blocks: gen_id continued past 16 bits; constant in a session.
  uint32_t aggr_buffer = 0;      ///< aggr_paddr: number of the aggregation buffer.
  uint32_t tensor_elements = 0;  ///< Of the first contribution; later ones must agree.
  uint32_t scale_bits = 0;
  uint16_t gen_id = 0;  ///< As in the header.
  uint16_t grad_cnt = 0;
  wire::ElementFormat format = wire::ElementFormat::kInt32;
  bool extended = false;  ///< Contributions carry the extension, so the result does.

  // Changed by contributions and timers.
  BlockPhase phase = BlockPhase::kFree;
  bool closing = false;      ///< Complete or aged out: nobody is let in any more.
  uint16_t incarnation = 0;  ///< Tells a reused place from the block that was there before.
  uint16_t admitted = 0;     ///< Contributions let in.
  uint16_t rcvd_cnt = 0;     ///< Of those, how many have added their payload.
  uint16_t src_cnt = 0;      ///< Ranks in the sum.
  uint16_t head_bytes = 0;   ///< Of the finished message, in front of the lanes.
  uint8_t block_age = 0;     ///< Scans since the last contribution.
  uint8_t flags = 0;         ///< Merged from the contributions, like the next three.
  int8_t exponent = -128;
  bool final = false;
  bool degraded = false;
  bool mismatch_told = false;
  Instant referenced_at;  ///< When the last contribution was let in.

  SourceMask rcvd_mask{};  ///< Sources admitted.
  SourceMask expected{};   ///< Sources waited for.
  SourceMask ranks{};      ///< Jobs of aggregators: ranks in the sum.

  /// Nobody has contributed yet: what contributions and timers change is as in a new record, but
  /// for the incarnation.
  void begin() {
    phase = BlockPhase::kAggregating;
    closing = false;
    admitted = 0;
    rcvd_cnt = 0;
    src_cnt = 0;
    head_bytes = 0;
    block_age = 0;
    flags = 0;
    exponent = -128;
    final = false;
    degraded = false;
    mismatch_told = false;
    referenced_at = Instant();
    rcvd_mask = {};
    ranks = {};
  }
};

static_assert(offsetof(BlockRecord, rcvd_mask) == 64,
              "all but the masks in one cache line: what a contribution touches are two");

enum class Admission : uint8_t { kAdmitted, kDuplicate, kClosed };

/// Lets `source` in unless it is in already, the block is closing, or the place now belongs to
/// another block than the one seen at the lookup.
[[nodiscard]] inline Admission admit(BlockRecord& block, uint16_t incarnation, uint32_t source,
                                     Instant now) {
  if (block.incarnation != incarnation) return Admission::kClosed;
  // Before `closing`: a block that was sent up is closed, and a repeat asks to send it again.
  if (!TRIB_MUTANT(kAdmitTwice) && contains(block.rcvd_mask, source)) return Admission::kDuplicate;
  if (!TRIB_MUTANT(kAdmitLate) && block.closing) return Admission::kClosed;
  include(block.rcvd_mask, source);
  block.admitted++;
  block.block_age = 0;
  if (!TRIB_MUTANT(kReferenceLost) || block.admitted == 1) block.referenced_at = now;
  return Admission::kAdmitted;
}

/// Whether every source waited for has been let in. Word by word, and done with the first that
/// lacks one: all of them at once would be read before the word that admit() has just written has
/// left the store buffer.
[[nodiscard]] inline bool is_complete(const BlockRecord& block) {
  for (uint32_t i = 0; i < block.expected.size(); i++) {
    uint64_t missing = block.expected[i] & ~block.rcvd_mask[i];
    if (TRIB_MUTANT(kCompleteOneShort)) missing &= missing - 1;
    if (missing != 0) return false;
  }
  return true;
}

/// What a contribution says of itself becomes part of its block.
inline void merge(BlockRecord& block, const Contribution& contribution) {
  block.exponent = std::max(block.exponent, contribution.exponent);
  if (TRIB_MUTANT(kExponentOfLast)) block.exponent = contribution.exponent;
  if (!TRIB_MUTANT(kFlagsForgotten)) block.flags |= contribution.flags;
  block.final |= contribution.final;
  if (!TRIB_MUTANT(kDegradedForgotten)) block.degraded |= contribution.degraded;
}

/// The contribution's payload is in the buffer. @return true to exactly one caller: the one that
/// makes the block's sum final and now has to send its result.
[[nodiscard]] inline bool settle(BlockRecord& block, const Contribution& contribution) {
  block.rcvd_cnt++;
  block.src_cnt = static_cast<uint16_t>(block.src_cnt + contribution.src_cnt);
  if (TRIB_MUTANT(kSourceCountedTwice)) block.src_cnt++;
  if (!contribution.is_plain()) merge(block, contribution);
  block.closing |= is_complete(block);
  return block.closing && block.rcvd_cnt == block.admitted;
}

/// The block has aged out. @return as settle(); false while contributions are being added, the last
/// of which will get true. A block that is closing already, or whose first contribution is not let
/// in yet, stays as it is.
[[nodiscard]] inline bool close(BlockRecord& block) {
  if (block.closing || block.admitted == 0) return false;
  block.closing = true;
  return block.rcvd_cnt == block.admitted;
}

/// A kept result. Its message lies in the aggregation buffer, ready to be sent again.
struct ResultRecord {
  uint64_t generation = 0;
  uint32_t block_id = 0;
  uint32_t aggr_buffer = 0;
  uint16_t head_bytes = 0;
  uint16_t grad_cnt = 0;
  bool valid = false;
};

/// What a job is and has done, as far as the packet path needs it (Trio paper Figure 17).
struct JobRecord {
  uint32_t block_curr_cnt = 0;   ///< Blocks in progress.
  uint64_t block_total_cnt = 0;  ///< Results generated.
  SourceMask src_mask{};         ///< Every source of the job.
  SourceMask active_mask{};      ///< Those waited for: without permanent stragglers.
};

}  // namespace tributary::trio_ml
