// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/hash_tables.h"

#include <algorithm>
#include <utility>

#include "microcode/hash.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {
namespace {

using memory::HashBuckets;
using memory::kHashBucketBytes;
using memory::kRefFlagBytes;
using memory::Range;

/// Takes memory from SRAM, or from DRAM if SRAM has too little left.
Result<const std::byte*> take(memory::HeldMemory& held, uint64_t size_bytes) {
  auto bytes = held.allocate(Range::kSram, size_bytes, kHashBucketBytes);
  if (!bytes) bytes = held.allocate(Range::kDram, size_bytes, kHashBucketBytes);
  if (!bytes) return tl::unexpected(bytes.error());
  return *bytes;
}

HashBuckets::Place place_of(const std::byte* buckets, uint64_t key_count) {
  return {.first = buckets, .bucket_mask = HashBuckets::bucket_count(key_count) - 1};
}

}  // namespace

// --- Blocks -------------------------------------------------------------------------------------

uint64_t BlockTable::memory_bytes(uint32_t place_count) {
  return HashBuckets::bucket_count(place_count) * kHashBucketBytes +
         uint64_t{place_count} * kRefFlagBytes;
}

Result<std::unique_ptr<BlockTable>> BlockTable::create(uint8_t job_id, uint32_t place_count,
                                                       memory::SharedMemory& memory) {
  memory::HeldMemory held(memory);
  const auto buckets = take(held, HashBuckets::bucket_count(place_count) * kHashBucketBytes);
  if (!buckets) return tl::unexpected(buckets.error());
  const auto ref_flags = take(held, uint64_t{place_count} * kRefFlagBytes);
  if (!ref_flags) return tl::unexpected(ref_flags.error());
  return std::unique_ptr<BlockTable>(
      new BlockTable(job_id, place_count, std::move(held), *buckets, *ref_flags));
}

BlockTable::BlockTable(uint8_t job_id, uint32_t place_count, memory::HeldMemory held,
                       const std::byte* buckets, const std::byte* ref_flags)
    : job_id_(job_id),
      held_(std::move(held)),
      buckets_(place_of(buckets, place_count)),
      ref_flags_(ref_flags),
      block_at_(place_count, kNoBlock) {}

uint64_t BlockTable::hash_of(uint32_t block_id) const {
  return microcode::FieldHash().include(job_id_).include(block_id).value();
}

void BlockTable::insert(uint32_t place, uint32_t block_id) {
  erase(place);
  block_at_[place] = block_id;
  buckets_.insert(hash_of(block_id));
}

void BlockTable::erase(uint32_t place) {
  if (block_at_[place] == kNoBlock) return;
  buckets_.erase(hash_of(static_cast<uint32_t>(block_at_[place])));
  block_at_[place] = kNoBlock;
}

void BlockTable::clear() {
  std::fill(block_at_.begin(), block_at_.end(), kNoBlock);
  buckets_.clear();
}

bool BlockTable::has_ref_flag(const void* at) const {
  const auto offset = reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(ref_flags_);
  return offset < block_at_.size() * kRefFlagBytes;  // Wraps below the first flag.
}

// --- Jobs ---------------------------------------------------------------------------------------

Result<std::unique_ptr<JobTable>> JobTable::create(memory::SharedMemory& memory) {
  memory::HeldMemory held(memory);
  const auto buckets = take(held, HashBuckets::bucket_count(wire::kJobsMax) * kHashBucketBytes);
  if (!buckets) return tl::unexpected(buckets.error());
  return std::unique_ptr<JobTable>(new JobTable(std::move(held), *buckets));
}

JobTable::JobTable(memory::HeldMemory held, const std::byte* buckets)
    : held_(std::move(held)), buckets_(place_of(buckets, wire::kJobsMax)) {}

uint64_t JobTable::hash_of(uint8_t job_id) {
  return microcode::FieldHash().include(job_id).value();
}

}  // namespace tributary::trio_ml
