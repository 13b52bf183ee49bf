// SPDX-License-Identifier: Apache-2.0
// Method: the tables by hand. tests/engine/model/aggregation_test.cc has them on a machine.
#include "apps/trio_ml/hash_tables.h"

#include <gtest/gtest.h>

#include <set>

#include "wire/trio_ml.h"

namespace tributary::trio_ml {
namespace {

using microcode::XtxnKind;

TEST(TrioMlHashTables, LieInSramAndReturnTheirMemory) {
  auto memory = *memory::SharedMemory::create({.sram_size_bytes = 1 << 16, .dram_size_bytes = 0});
  {
    const auto table = *BlockTable::create(/*job_id=*/1, /*place_count=*/100, memory);
    EXPECT_EQ(memory.used_bytes(memory::Range::kSram), 64U * 64 + 100 * 8);
    EXPECT_EQ(BlockTable::memory_bytes(100), 64U * 64 + 100 * 8);
    const microcode::Xtxn look_up = table->request(XtxnKind::kHashLookup, 7);
    EXPECT_EQ(look_up.size_bytes, memory::kHashBucketBytes);
    EXPECT_FALSE(memory.address_of(look_up.target).is_null());
    EXPECT_EQ(table->ref_flag_of(3), table->ref_flag_of(0) + 24);
    EXPECT_TRUE(table->has_ref_flag(table->ref_flag_of(99)));
    EXPECT_FALSE(table->has_ref_flag(table->ref_flag_of(100)));
    EXPECT_FALSE(table->has_ref_flag(table->ref_flag_of(0) - 1));
  }
  EXPECT_EQ(memory.used_bytes(memory::Range::kSram), 0U);
}

TEST(TrioMlHashTables, LieInDramIfSramIsFull) {
  auto memory = *memory::SharedMemory::create({.sram_size_bytes = 64, .dram_size_bytes = 1 << 20});
  const auto table = *BlockTable::create(1, 100, memory);
  EXPECT_EQ(memory.used_bytes(memory::Range::kSram), 0U);
  EXPECT_EQ(memory.used_bytes(memory::Range::kDram), BlockTable::memory_bytes(100));
}

TEST(TrioMlHashTables, AreRefusedWithoutMemory) {
  auto memory = *memory::SharedMemory::create({.sram_size_bytes = 64, .dram_size_bytes = 64});
  EXPECT_FALSE(BlockTable::create(1, 100, memory));
  EXPECT_FALSE(JobTable::create(memory));
  EXPECT_EQ(memory.used_bytes(memory::Range::kSram), 0U);
}

TEST(TrioMlHashTables, APlaceHasOneBlock) {
  auto memory = *memory::SharedMemory::create({.sram_size_bytes = 1 << 16, .dram_size_bytes = 0});
  // One place, so one bucket: every block has the same home.
  const auto table = *BlockTable::create(1, 1, memory);
  const microcode::Xtxn look_up = table->request(XtxnKind::kHashLookup, 0);
  const auto length = [&] { return look_up.table->chain_length(look_up.target); };
  for (uint32_t block = 0; block < 9; block++) table->insert(0, block);
  EXPECT_EQ(length(), 1U);  // Nine keys would need three buckets.
  table->erase(0);
  table->erase(0);  // It had none.
  EXPECT_EQ(length(), 1U);
}

TEST(TrioMlHashTables, JobsShareOneTable) {
  auto memory = *memory::SharedMemory::create({.sram_size_bytes = 1 << 16, .dram_size_bytes = 0});
  const auto jobs = *JobTable::create(memory);
  std::set<const void*> buckets;
  for (uint32_t id = 0; id < wire::kJobsMax; id++) {
    jobs->insert(static_cast<uint8_t>(id));
    buckets.insert(jobs->look_up(static_cast<uint8_t>(id)).target);
  }
  EXPECT_GT(buckets.size(), 100U);  // Of 256.
  uint32_t overflowing = 0;
  for (const void* bucket : buckets)
    overflowing += jobs->buckets().chain_length(bucket) > 1 ? 1 : 0;
  EXPECT_LT(overflowing, buckets.size() / 10);
  for (uint32_t id = 0; id < wire::kJobsMax; id++) jobs->erase(static_cast<uint8_t>(id));
  for (const void* bucket : buckets) EXPECT_EQ(jobs->buckets().chain_length(bucket), 1U);
}

}  // namespace
}  // namespace tributary::trio_ml
