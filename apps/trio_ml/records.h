// SPDX-License-Identifier: Apache-2.0
/// @file
/// The records of Trio-ML in shared memory. Field names are those of the Trio paper (Figures 17 and
/// 18). The comment of every other field gives its purpose.
///
/// Threads: A record belongs to one shard (one core). On a machine that interleaves threads, only
///          XTXNs change the fields of the second group of BlockRecord. The first group is written
///          before another thread can find the record.
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
/// Compares word by word, for the reason that is_complete() gives.
[[nodiscard]] inline bool is_same(const SourceMask& a, const SourceMask& b) {
  for (uint32_t i = 0; i < a.size(); i++) {
    if (a[i] != b[i]) return false;
  }
  return true;
}
[[nodiscard]] uint32_t count(const SourceMask& mask);
/// Returns the lowest source in the mask; kSourcesMax if there is none.
[[nodiscard]] uint32_t first_of(const SourceMask& mask);
/// Returns the mask of sources 0 to source_count - 1.
[[nodiscard]] SourceMask first_sources(uint32_t source_count);

enum class BlockPhase : uint8_t {
  kFree,
  kAggregating,
  kSentUp,             ///< Complete here; waits for the upper aggregator's result.
  kPublishing,         ///< The upper aggregator's result is being prepared.
  kPublishingReceipt,  ///< Likewise its receipt: no rank below owns the result.
  kDiscarded,          ///< Its session has ended. The thread that would emit it frees it.
};

/// The fields that one contribution adds to a record beside its payload.
struct Contribution {
  uint16_t src_cnt = 1;  ///< Ranks in it: 1 from a worker, more from a lower aggregator.
  int8_t exponent = -128;
  uint8_t flags = 0;
  bool final = false;
  bool degraded = false;

  /// Tells whether the contribution changes nothing in the record but src_cnt.
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
  uint64_t generation = 0;       ///< Orders blocks: gen_id extended to 64 bits.
  uint32_t aggr_buffer = 0;      ///< aggr_paddr: number of the aggregation buffer.
  uint32_t tensor_elements = 0;  ///< The first contribution's; later ones must agree.
  uint32_t scale_bits = 0;
  uint16_t gen_id = 0;  ///< As in the header.
  uint16_t grad_cnt = 0;
  wire::ElementFormat format = wire::ElementFormat::kInt32;
  bool extended = false;  ///< Contributions carry the extension, so the result does.

  // Changed by contributions and timers.
  BlockPhase phase = BlockPhase::kFree;
  bool closing = false;      ///< Complete or aged out: admits no source.
  uint16_t incarnation = 0;  ///< Distinguishes successive blocks at one place.
  uint16_t admitted = 0;     ///< Contributions admitted.
  uint16_t rcvd_cnt = 0;     ///< Admitted contributions that have added their payload.
  uint16_t src_cnt = 0;      ///< Ranks in the sum.
  uint16_t head_bytes = 0;   ///< Size of the finished head in front of the lanes.
  uint8_t block_age = 0;     ///< Scans since the last contribution.
  uint8_t flags = 0;         ///< Merged from the contributions, like the next three.
  int8_t exponent = -128;
  bool final = false;
  bool degraded = false;
  bool mismatch_told = false;
  uint32_t sent_up_at_us = 0;  ///< kSentUp: low bits of the time of the last partial sum.
  Instant referenced_at;       ///< Time of the last admission.

  SourceMask rcvd_mask{};  ///< Sources admitted.
  SourceMask expected{};   ///< Sources that the block waits for.
  SourceMask ranks{};      ///< Jobs of aggregators: ranks in the sum.

  /// Resets the fields that contributions and timers change, except the incarnation.
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
              "everything but the masks fits one cache line, so a contribution touches two");

/// Returns the low 32 bits of a time in microseconds, which order times less than 35 minutes apart.
[[nodiscard]] inline uint32_t low_us(Instant at) {
  return static_cast<uint32_t>(in_nanoseconds(at.since_start()) / 1000);
}
/// Tells whether one low_us() precedes another.
[[nodiscard]] inline bool is_before_us(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) < 0;
}

/// Returns the bytes of a block's gradients on the wire.
[[nodiscard]] inline uint32_t payload_bytes(const BlockRecord& block) {
  if (block.phase == BlockPhase::kPublishingReceipt) [[unlikely]]
    return 0;
  return block.grad_cnt * wire::gradient_bytes(block.format);
}

enum class Admission : uint8_t { kAdmitted, kDuplicate, kClosed };

/// Admits `source`, unless the block already holds its contribution, the block is closing, or the
/// place belongs to another block than at the lookup.
[[nodiscard]] inline Admission admit(BlockRecord& block, uint16_t incarnation, uint32_t source,
                                     Instant now) {
  if (block.incarnation != incarnation) return Admission::kClosed;
  // Checked before `closing`: a repeat asks a closed block that was sent up to be sent again.
  if (!TRIB_MUTANT(kAdmitTwice) && contains(block.rcvd_mask, source)) return Admission::kDuplicate;
  if (!TRIB_MUTANT(kAdmitLate) && block.closing) return Admission::kClosed;
  include(block.rcvd_mask, source);
  block.admitted++;
  block.block_age = 0;
  if (!TRIB_MUTANT(kReferenceLost) || block.admitted == 1) block.referenced_at = now;
  return Admission::kAdmitted;
}

/// Tells whether every expected source is admitted. Compares word by word and stops at the first
/// difference: a wide load of all words would stall, because the word that admit() has just written
/// is still in the store buffer.
[[nodiscard]] inline bool is_complete(const BlockRecord& block) {
  for (uint32_t i = 0; i < block.expected.size(); i++) {
    uint64_t missing = block.expected[i] & ~block.rcvd_mask[i];
    if (TRIB_MUTANT(kCompleteOneShort)) missing &= missing - 1;
    if (missing != 0) return false;
  }
  return true;
}

/// Merges the fields of a contribution into its block.
inline void merge(BlockRecord& block, const Contribution& contribution) {
  block.exponent = std::max(block.exponent, contribution.exponent);
  if (TRIB_MUTANT(kExponentOfLast)) block.exponent = contribution.exponent;
  if (!TRIB_MUTANT(kFlagsForgotten)) block.flags |= contribution.flags;
  block.final |= contribution.final;
  if (!TRIB_MUTANT(kDegradedForgotten)) block.degraded |= contribution.degraded;
}

/// Records that the contribution's payload is in the buffer.
/// @return true to exactly one caller: its contribution makes the sum final, and it must emit the
///         block.
[[nodiscard]] inline bool settle(BlockRecord& block, const Contribution& contribution) {
  block.rcvd_cnt++;
  block.src_cnt = static_cast<uint16_t>(block.src_cnt + contribution.src_cnt);
  if (TRIB_MUTANT(kSourceCountedTwice)) block.src_cnt++;
  if (!contribution.is_plain()) merge(block, contribution);
  block.closing |= is_complete(block);
  return block.closing && block.rcvd_cnt == block.admitted;
}

/// Closes a block that has aged out. Leaves a block unchanged that is closing already, or whose
/// first contribution is not admitted yet.
/// @return true if the caller must emit the block; false while contributions are being added, since
///         the last of them gets true from settle().
[[nodiscard]] inline bool close(BlockRecord& block) {
  if (block.closing || block.admitted == 0) return false;
  block.closing = true;
  return block.rcvd_cnt == block.admitted;
}

/// Tells whether a thread adds to the block's buffer, or is about to emit the block.
[[nodiscard]] inline bool has_threads(const BlockRecord& block) {
  if (block.phase == BlockPhase::kFree) return false;
  const bool is_emitted = block.closing && block.phase != BlockPhase::kSentUp;
  return is_emitted || block.admitted != block.rcvd_cnt;
}

/// A kept result. Its message stays in the aggregation buffer, ready to be sent again.
struct ResultRecord {
  uint64_t generation = 0;
  uint32_t block_id = 0;
  uint32_t aggr_buffer = 0;
  uint16_t head_bytes = 0;
  uint16_t payload_bytes = 0;
  /// The rank that gets the gradients, while the others get receipts, plus one. 0: all sources get
  /// the kept message as it is.
  uint16_t owner_plus_one = 0;
  bool valid = false;
};
static_assert(sizeof(ResultRecord) == 24);

/// Returns ResultRecord::owner_plus_one of a block's result.
[[nodiscard]] inline uint16_t owner_plus_one(const BlockRecord& block) {
  if (block.phase == BlockPhase::kPublishingReceipt) [[unlikely]]
    return 0;
  const auto owner = wire::result_owner(block.format, block.scale_bits);
  return static_cast<uint16_t>(owner ? *owner + 1 : 0);
}

/// The fields of a job that the packet path needs (Trio paper Figure 17).
struct JobRecord {
  uint32_t block_curr_cnt = 0;      ///< Blocks in progress.
  uint64_t block_total_cnt = 0;     ///< Results generated.
  uint64_t block_degraded_cnt = 0;  ///< Results without some source's contribution.
  SourceMask src_mask{};            ///< Every source of the job.
  SourceMask active_mask{};         ///< Expected sources: without permanent stragglers.
};

}  // namespace tributary::trio_ml
