// SPDX-License-Identifier: Apache-2.0
/// @file
/// The hash tables of Trio-ML as the chip has them, for machines that price hash operations: the
/// job records by job_id, and a job's block records by (job_id, block_id) (Trio paper §4).
///
/// Model:   Shard and BlockWindow find the records. These tables say only which addresses a hash
///          operation visits. One table for each job stands for the paper's single one.
/// Place:   SRAM, "for frequently-accessed data structures" (§2.3), or DRAM if SRAM is full. The
///          paper does not state it.
/// Threads: Owned by one shard. Only services of XTXNs change them.
/// Memory:  Addresses of shared memory, returned at the end, and some bytes of heap for each block.
/// Tests:   tests/apps/trio_ml/hash_tables_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "memory/hash_buckets.h"
#include "memory/held_memory.h"
#include "memory/shared_memory.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

/// The blocks of one job on one core that have a record.
class BlockTable {
 public:
  /// @param place_count Places of the job's window.
  /// @return an Error if shared memory has too little left.
  [[nodiscard]] static Result<std::unique_ptr<BlockTable>> create(uint8_t job_id,
                                                                  uint32_t place_count,
                                                                  memory::SharedMemory& memory);
  /// Returns the bytes that create() takes, apart from alignment.
  [[nodiscard]] static uint64_t memory_bytes(uint32_t place_count);

  /// Adds the record of the block at a place of the window. Replaces the place's previous one.
  void insert(uint32_t place, uint32_t block_id);
  /// Removes the record of the block at a place. Does nothing if it has none.
  void erase(uint32_t place);
  void clear();

  /// Returns the request of a hash operation on a block.
  [[nodiscard]] microcode::Xtxn request(microcode::XtxnKind kind, uint32_t block_id) const {
    return {kind, buckets_.home_of(hash_of(block_id)), memory::kHashBucketBytes, &buckets_};
  }
  /// Returns the REF flag of a place, for scans.
  [[nodiscard]] const std::byte* ref_flag_of(uint32_t place) const {
    return ref_flags_ + uint64_t{place} * memory::kRefFlagBytes;
  }

  [[nodiscard]] const memory::HashBuckets& buckets() const { return buckets_; }
  /// Tells whether an address is a REF flag of this table.
  [[nodiscard]] bool has_ref_flag(const void* at) const;

 private:
  static constexpr uint64_t kNoBlock = UINT64_MAX;

  BlockTable(uint8_t job_id, uint32_t place_count, memory::HeldMemory held,
             const std::byte* buckets, const std::byte* ref_flags);
  [[nodiscard]] uint64_t hash_of(uint32_t block_id) const;

  uint8_t job_id_;
  memory::HeldMemory held_;
  memory::HashBuckets buckets_;
  const std::byte* ref_flags_;
  std::vector<uint64_t> block_at_;  ///< Shape [place_count]: the block with a record, or kNoBlock.
};

/// The jobs of one core.
class JobTable {
 public:
  [[nodiscard]] static Result<std::unique_ptr<JobTable>> create(memory::SharedMemory& memory);

  void insert(uint8_t job_id) { buckets_.insert(hash_of(job_id)); }
  /// @pre The job is in the table.
  void erase(uint8_t job_id) { buckets_.erase(hash_of(job_id)); }
  /// Returns the request of a look-up of a job.
  [[nodiscard]] microcode::Xtxn look_up(uint8_t job_id) const {
    return {microcode::XtxnKind::kHashLookup, buckets_.home_of(hash_of(job_id)),
            memory::kHashBucketBytes, &buckets_};
  }
  [[nodiscard]] const memory::HashBuckets& buckets() const { return buckets_; }

 private:
  JobTable(memory::HeldMemory held, const std::byte* buckets);
  [[nodiscard]] static uint64_t hash_of(uint8_t job_id);

  memory::HeldMemory held_;
  memory::HashBuckets buckets_;
};

}  // namespace tributary::trio_ml
