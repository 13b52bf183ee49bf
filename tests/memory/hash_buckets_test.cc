// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked chains, then random keys against a count of each home's keys. The buckets are
// addresses only, so the tests make them up.
#include "memory/hash_buckets.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/prng.h"
#include "memory/record_store.h"
#include "memory/xtxn.h"
#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

/// Eight buckets.
struct Eight {
  std::array<std::byte, 8 * kHashBucketBytes> bytes{};
  HashBuckets table{{.first = bytes.data(), .bucket_mask = 7}};
};

TEST(HashBuckets, HaveTwoPlacesForEachKey) {
  EXPECT_EQ(HashBuckets::bucket_count(1), 1U);
  EXPECT_EQ(HashBuckets::bucket_count(2), 2U);
  EXPECT_EQ(HashBuckets::bucket_count(100), 64U);  // 200 places / 4 + 1 = 51, rounded up.
}

TEST(HashBuckets, TheHashNamesTheHome) {
  const Eight eight;
  EXPECT_EQ(eight.table.home_of(0), eight.bytes.data());
  EXPECT_EQ(eight.table.home_of(3), eight.bytes.data() + 192);
  EXPECT_EQ(eight.table.home_of(8 + 3), eight.bytes.data() + 192);
  EXPECT_EQ(eight.table.size_bytes(), 512U);
}

TEST(HashBuckets, AFifthKeyBeginsAnOverflowBucket) {
  Eight eight;
  HashBuckets& table = eight.table;
  const std::byte* const home = table.home_of(7);
  EXPECT_EQ(table.chain_length(home), 1U);  // Even an empty bucket is visited.
  for (uint32_t keys = 1; keys <= 9; keys++) {
    table.insert(7 + uint64_t{8} * keys);
    EXPECT_EQ(table.chain_length(home), keys <= 4 ? 1U : keys <= 8 ? 2U : 3U) << keys;
  }
  EXPECT_EQ(table.chain_length(table.home_of(6)), 1U);  // Other homes have chains of their own.
  EXPECT_EQ(table.chained(home, 0), home);
  EXPECT_EQ(table.chained(home, 1), eight.bytes.data());  // Behind the last bucket is the first.
  EXPECT_EQ(table.chained(home, 2), eight.bytes.data() + 64);
  table.erase(15);
  EXPECT_EQ(table.chain_length(home), 2U);
  table.clear();
  EXPECT_EQ(table.chain_length(home), 1U);
}

TEST(HashBuckets, WithoutAPlaceNothingIsCounted) {
  HashBuckets table{HashBuckets::Place{}};
  table.insert(1);
  table.erase(1);
  table.erase(2);
  EXPECT_EQ(table.size_bytes(), 0U);
}

TEST(HashBucketsDeathTest, RefuseAnAddressElsewhere) {
  const Eight eight;
  EXPECT_DEATH(static_cast<void>(eight.table.chain_length(eight.bytes.data() + 512)), "index");
  EXPECT_DEATH(static_cast<void>(eight.table.chain_length(eight.bytes.data() - 64)), "index");
}

TEST(HashBuckets, RandomKeysMatchACountOfEachHome) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Eight eight;
  std::array<uint32_t, 8> model{};
  std::vector<uint64_t> inside;
  for (uint32_t step = 0; step < 20'000; step++) {
    if (inside.empty() || prng.chance(0.52)) {
      inside.push_back(prng.any_u64());
      eight.table.insert(inside.back());
      model[inside.back() % 8]++;
    } else {
      const uint32_t i = prng.below(static_cast<uint32_t>(inside.size()));
      eight.table.erase(inside[i]);
      model[inside[i] % 8]--;
      inside[i] = inside.back();
      inside.pop_back();
    }
    for (uint32_t home = 0; home < 8; home++) {
      const uint32_t buckets = std::max(1U, (model[home] + 3) / 4);
      ASSERT_EQ(eight.table.chain_length(eight.table.home_of(home)), buckets) << "step " << step;
    }
  }
}

/// A hash under the test's control, apart from the store's mixing.
struct OneHome {
  uint64_t operator()(uint64_t, uint64_t) const { return 1; }
};

TEST(HashBuckets, AStoreCountsItsKeysInThem) {
  auto memory = *SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 1 << 20});
  using Store = RecordStore<uint64_t, PacketByteCounter, OneHome>;
  Store store({.capacity = 64, .place = *Store::place_in(memory, 64)});
  const microcode::Xtxn look_up = hash_request(XtxnKind::kHashLookup, store, uint64_t{1});
  EXPECT_EQ(look_up.size_bytes, kHashBucketBytes);
  ASSERT_EQ(look_up.table, &store.buckets());
  for (uint64_t key = 1; key <= 5; key++) ASSERT_NE(store.create(key).record, nullptr);
  static_cast<void>(store.create(5));  // Exists already.
  EXPECT_EQ(look_up.table->chain_length(look_up.target), 2U);
  EXPECT_TRUE(store.erase(2));
  EXPECT_FALSE(store.erase(2));
  EXPECT_EQ(look_up.table->chain_length(look_up.target), 1U);
}

}  // namespace
}  // namespace tributary::memory
