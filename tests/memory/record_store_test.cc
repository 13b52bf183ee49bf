// SPDX-License-Identifier: Apache-2.0
// Method: the life of a record by hand, then refusals (full store, keys with equal hashes), then a
// random walk against std::map, with REF flags.
#include "memory/record_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Like a block's key: job and block (Trio paper §4).
struct BlockKey {
  uint32_t job_id;
  uint32_t block_id;
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};
/// The key itself: the weakest hash that still distinguishes keys.
struct BlockKeyHash {
  uint64_t operator()(const BlockKey& key) const {
    return uint64_t{key.job_id} << 32 | key.block_id;
  }
};
struct Value {
  uint64_t sum = 0;
  uint32_t count = 0;
};
using Store = RecordStore<BlockKey, Value, BlockKeyHash>;

std::vector<uint32_t> idle_blocks(Store& store) {
  std::vector<uint32_t> idle;
  store.scan_idle(0, store.capacity(),
                  [&](uint32_t, const BlockKey& key, Value&) { idle.push_back(key.block_id); });
  return idle;
}

TEST(RecordStore, CreatesLooksUpAndErases) {
  Store store({.capacity = 4});
  EXPECT_EQ(store.lookup({1, 7}), nullptr);
  const auto [status, record] = store.create({1, 7});
  ASSERT_EQ(status, CreateStatus::kCreated);
  EXPECT_EQ(record->sum, 0u);
  record->sum = 42;
  EXPECT_EQ(store.lookup({1, 7}), record);
  EXPECT_EQ(store.lookup({7, 1}), nullptr);
  EXPECT_EQ(store.size(), 1u);
  EXPECT_TRUE(store.erase({1, 7}));
  EXPECT_FALSE(store.erase({1, 7}));
  EXPECT_EQ(store.lookup({1, 7}), nullptr);
  EXPECT_EQ(store.counters().found, 1u);
  EXPECT_EQ(store.counters().missed, 3u);
}

TEST(RecordStore, RecordsStartBlankInAReusedSlot) {
  Store store({.capacity = 1});
  store.create({1, 1}).record->sum = 99;
  store.erase({1, 1});
  EXPECT_EQ(store.create({1, 2}).record->sum, 0u);
}

TEST(RecordStore, CreateReturnsTheRecordOfAnExistingKey) {
  Store store({.capacity = 1});
  Value* const record = store.create({1, 1}).record;
  const auto again = store.create({1, 1});
  EXPECT_EQ(again.status, CreateStatus::kExists);  // Also in a full store.
  EXPECT_EQ(again.record, record);
  EXPECT_EQ(store.size(), 1u);
  EXPECT_EQ(store.counters().created, 1u);
}

TEST(RecordStore, OnlyLookupReferencesTheRecord) {
  Store store({.capacity = 8});
  for (const uint32_t block : {1, 2, 3, 4}) ASSERT_NE(store.create({0, block}).record, nullptr);
  EXPECT_THAT(idle_blocks(store), IsEmpty());  // All were just created.
  EXPECT_NE(store.lookup({0, 1}), nullptr);
  EXPECT_NE(store.peek({0, 2}), nullptr);
  EXPECT_EQ(store.create({0, 3}).status, CreateStatus::kExists);
  EXPECT_THAT(idle_blocks(store), ElementsAre(2, 4));
  store.touch(store.peek({0, 4}));
  EXPECT_THAT(idle_blocks(store), ElementsAre(1, 2, 3));
}

TEST(RecordStore, ScanMayEraseAndRecreate) {
  Store store({.capacity = 2});
  ASSERT_NE(store.create({0, 1}).record, nullptr);
  ASSERT_NE(store.create({0, 2}).record, nullptr);
  EXPECT_THAT(idle_blocks(store), IsEmpty());
  store.scan_idle(0, 2, [&](uint32_t slot, const BlockKey& key, Value& record) {
    EXPECT_EQ(store.slot_of(&record), slot);
    EXPECT_TRUE(store.erase(key));
    if (key.block_id == 1) {
      EXPECT_EQ(store.create({0, 3}).status, CreateStatus::kCreated);
    }
  });
  EXPECT_EQ(store.size(), 1u);
  EXPECT_NE(store.peek({0, 3}), nullptr);
  EXPECT_THAT(idle_blocks(store), IsEmpty());  // The record is new, although its slot was idle.
  EXPECT_THAT(idle_blocks(store), ElementsAre(3));
}

TEST(RecordStore, ScanVisitsEveryLiveRecordOnce) {
  Store store({.capacity = 100});
  for (uint32_t block = 0; block < 80; block++) (void)store.create({1, block});
  for (uint32_t block = 0; block < 80; block += 2) store.erase({1, block});
  const auto scan = [&] {
    std::map<uint32_t, bool> idle_of;
    store.scan(0, store.capacity(), [&](uint32_t, const BlockKey& key, Value& value, bool idle) {
      EXPECT_TRUE(idle_of.emplace(key.block_id, idle).second);
      EXPECT_EQ(&value, store.peek(key));
      if (key.block_id == 5) store.erase(key);
    });
    return idle_of;
  };
  auto first = scan();
  EXPECT_EQ(first.size(), 40u);
  for (const auto& [block, idle] : first) EXPECT_FALSE(idle) << block;
  EXPECT_NE(store.lookup({1, 7}), nullptr);
  auto second = scan();
  EXPECT_EQ(second.size(), 39u);  // The first scan has erased block 5.
  for (const auto& [block, idle] : second) EXPECT_EQ(idle, block != 7) << block;
}

TEST(RecordStore, FullStoreRefusesAndCounts) {
  Store store({.capacity = 3});
  for (const uint32_t block : {1, 2, 3}) ASSERT_NE(store.create({0, block}).record, nullptr);
  EXPECT_TRUE(store.is_full());
  const auto refused = store.create({0, 4});
  EXPECT_EQ(refused.status, CreateStatus::kStoreFull);
  EXPECT_EQ(refused.record, nullptr);
  EXPECT_EQ(store.counters().refused_store_full, 1u);
  store.erase({0, 2});
  EXPECT_EQ(store.create({0, 4}).status, CreateStatus::kCreated);
}

/// Equal hashes for all keys, as an attacker who knew the seed could arrange.
struct SameHash {
  uint64_t operator()(uint64_t) const { return 5; }
};

TEST(RecordStore, RefusesCollidingKeysWithoutGrowing) {
  RecordStore<uint64_t, Value, SameHash> store({.capacity = 1000});
  // Two buckets of eight: a seventeenth key has no place in the index.
  constexpr uint64_t kPlaces = 2 * SlotIndex::kEntriesPerBucket;
  for (uint64_t key = 0; key < kPlaces; key++) {
    ASSERT_EQ(store.create(key).status, CreateStatus::kCreated) << key;
  }
  EXPECT_EQ(store.create(kPlaces).status, CreateStatus::kIndexFull);
  EXPECT_EQ(store.counters().refused_index_full, 1u);
  EXPECT_EQ(store.size(), kPlaces);
  EXPECT_EQ(store.peek(kPlaces), nullptr);
  for (uint64_t key = 0; key < kPlaces; key++) EXPECT_NE(store.peek(key), nullptr);
  store.erase(3);
  EXPECT_EQ(store.create(kPlaces).status, CreateStatus::kCreated);
}

TEST(RecordStore, FillsToTheLastSlotAndStaysUsable) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  // Powers of two leave the index the least free room: half.
  for (const uint32_t capacity : {1u, 2u, 3u, 64u, 1000u, 4096u, 65536u}) {
    Store store({.capacity = capacity, .hash_seed = seed});
    for (uint32_t block = 0; block < capacity; block++) {
      ASSERT_EQ(store.create({1, block}).status, CreateStatus::kCreated)
          << capacity << " " << block;
    }
    EXPECT_EQ(store.size(), capacity);
    for (uint32_t block = capacity; block < capacity + 50'000; block++) {  // A moving window.
      ASSERT_TRUE(store.erase({1, block - capacity}));
      ASSERT_EQ(store.create({1, block}).status, CreateStatus::kCreated)
          << capacity << " " << block;
    }
    EXPECT_EQ(store.size(), capacity);
  }
}

/// Two words, of which only a keyed hash can use all bits.
struct WideKey {
  std::array<uint64_t, 2> words;
  friend bool operator==(const WideKey&, const WideKey&) = default;
};
struct WideKeyHash {
  uint64_t operator()(const WideKey& key, uint64_t seed) const {
    return (key.words[0] ^ seed) * 3 + key.words[1];
  }
};

TEST(RecordStore, LiesInSharedMemory) {
  using WideStore = RecordStore<WideKey, Value, WideKeyHash>;
  auto memory = *SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 1 << 20});
  const auto place = WideStore::place_in(memory, 100);
  ASSERT_TRUE(place.has_value());
  // 100 records of 16 bytes; 51 buckets, rounded up to 64 of 64 bytes; 100 flags of 8 bytes.
  EXPECT_EQ(memory.used_bytes(Range::kDram), 1600u + 4096u + 800u);
  EXPECT_EQ(place->bucket_mask, 63u);
  WideStore store({.capacity = 100, .hash_seed = 7, .place = *place});
  std::set<uint64_t> buckets;
  for (uint64_t i = 0; i < 100; i++) {
    const WideKey key{{i, 1}};
    Value* const record = store.create(key).record;
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(reinterpret_cast<std::byte*>(record), place->records + i * sizeof(Value));
    EXPECT_EQ(&store.at(static_cast<uint32_t>(i)), record);
    EXPECT_EQ(store.key_at(static_cast<uint32_t>(i)), key);
    const auto offset = static_cast<uint64_t>(store.bucket_of(key) - place->buckets);
    EXPECT_EQ(offset % kHashBucketBytes, 0u);
    buckets.insert(offset);
  }
  EXPECT_LE(*buckets.rbegin(), 63u * 64u);
  EXPECT_GT(buckets.size(), 32u);  // 100 keys leave few of 64 buckets empty.
  EXPECT_EQ(store.ref_flag_of(64), place->ref_flags + 512);
  EXPECT_EQ(store.live_mask(0), ~uint64_t{0});
  EXPECT_EQ(store.live_mask(64), (uint64_t{1} << 36) - 1);
  EXPECT_TRUE(store.erase({{1, 1}}));
  EXPECT_FALSE(store.is_live(1));
  EXPECT_EQ(store.live_mask(0), ~uint64_t{2});
}

TEST(RecordStore, RefusesAPlaceThatDoesNotFit) {
  auto memory = *SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 1 << 12});
  EXPECT_FALSE(Store::place_in(memory, 100).has_value());
}

TEST(RecordStoreDeathTest, RejectsAForeignRecord) {
  Store store({.capacity = 4});
  Value elsewhere[1];
  EXPECT_DEATH(static_cast<void>(store.slot_of(elsewhere)), "bug");
}

/// The store's contract in its plainest form.
struct Model {
  struct Entry {
    uint64_t sum = 0;
    bool ref = true;
    uint32_t slot = 0;
  };
  std::map<BlockKey, Entry> entries;

  std::set<BlockKey> scan(uint32_t begin, uint32_t end) {
    std::set<BlockKey> idle;
    for (auto& [key, entry] : entries) {
      if (entry.slot < begin || entry.slot >= end) continue;
      if (!entry.ref) idle.insert(key);
      entry.ref = false;
    }
    return idle;
  }
};

TEST(RecordStore, RandomWalkMatchesMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  const uint32_t capacity = 1 + prng.below(200);
  Store store({.capacity = capacity, .hash_seed = prng.any_u64()});
  Model model;
  uint64_t refused = 0;
  for (uint32_t step = 0; step < 100'000; step++) {
    const BlockKey key{prng.below(3), prng.below(100)};
    const auto known = model.entries.find(key);
    const bool exists = known != model.entries.end();
    switch (prng.below(8)) {
      case 0:
      case 1:
      case 2: {
        const bool full = model.entries.size() == capacity;
        const auto [status, record] = store.create(key);
        const auto expected = exists ? CreateStatus::kExists
                              : full ? CreateStatus::kStoreFull
                                     : CreateStatus::kCreated;
        ASSERT_EQ(status, expected) << "step " << step;
        if (exists) known->second.ref = true;
        if (status == CreateStatus::kStoreFull) refused++;
        if (status != CreateStatus::kCreated) break;
        record->sum = step;
        model.entries[key] = {.sum = step, .ref = true, .slot = store.slot_of(record)};
        break;
      }
      case 3:
        ASSERT_EQ(store.erase(key), exists) << "step " << step;
        model.entries.erase(key);
        break;
      case 4:
      case 5: {
        // Prefetching changes nothing.
        store.prefetch_index(store.hash_of(key));
        store.prefetch_record(store.hash_of(key), 0, sizeof(Value));
        const Value* const record = store.lookup(key);
        ASSERT_EQ(record != nullptr, exists) << "step " << step;
        if (!exists) break;
        ASSERT_EQ(record->sum, known->second.sum) << "step " << step;
        ASSERT_EQ(store.slot_of(record), known->second.slot) << "step " << step;
        known->second.ref = true;
        break;
      }
      case 6:
        ASSERT_EQ(store.peek(key) != nullptr, exists) << "step " << step;
        break;
      default: {
        const uint32_t begin = prng.below(capacity);
        const uint32_t end = begin + prng.below(capacity - begin + 1);
        std::set<BlockKey> idle;
        store.scan_idle(begin, end, [&](uint32_t, const BlockKey& k, Value&) { idle.insert(k); });
        ASSERT_EQ(idle, model.scan(begin, end)) << "step " << step;
      }
    }
    ASSERT_EQ(store.size(), model.entries.size()) << "step " << step;
  }
  EXPECT_EQ(store.counters().refused_store_full, refused);
  EXPECT_EQ(store.counters().refused_index_full, 0u);
}

}  // namespace
}  // namespace tributary::memory
