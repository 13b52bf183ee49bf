// SPDX-License-Identifier: Apache-2.0
// Method: entries by hand, then hashes that collide, then a random walk against std::unordered_map
// at the fullest state that a record store reaches.
#include "memory/slot_index.h"

#include <gtest/gtest.h>

#include <unordered_map>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

/// An index with the hashes of its slots, as an owner has the keys.
class Bed {
 public:
  explicit Bed(uint32_t slot_count) : index(slot_count), hash_of_(slot_count) {}

  bool insert(uint64_t hash, uint32_t slot) {
    if (!index.insert(hash, slot)) return false;
    hash_of_[slot] = hash;
    return true;
  }
  [[nodiscard]] uint32_t find(uint64_t hash) const {
    return index.find(hash, [&](uint32_t slot) { return hash_of_[slot] == hash; });
  }

  SlotIndex index;

 private:
  std::vector<uint64_t> hash_of_;
};

TEST(SlotIndex, FindsWhatItHolds) {
  Bed bed(4);
  EXPECT_EQ(bed.find(77), SlotIndex::kNoSlot);
  EXPECT_EQ(bed.index.guess(77), SlotIndex::kNoSlot);
  ASSERT_TRUE(bed.insert(77, 3));
  EXPECT_EQ(bed.find(77), 3U);
  EXPECT_EQ(bed.index.guess(77), 3U);
  bed.index.prefetch(77);  // Changes nothing.
  EXPECT_EQ(bed.find(77), 3U);
  bed.index.erase(77, 3);
  EXPECT_EQ(bed.find(77), SlotIndex::kNoSlot);
  EXPECT_EQ(bed.index.guess(77), SlotIndex::kNoSlot);
}

// Keys whose hashes are equal share a tag, so the owner's comparison alone tells them apart.
TEST(SlotIndex, KeysWithEqualHashesAreToldApartByTheOwner) {
  SlotIndex index(100);
  constexpr uint32_t kPlaces = 2 * SlotIndex::kEntriesPerBucket;
  for (uint32_t slot = 0; slot < kPlaces; slot++) ASSERT_TRUE(index.insert(5, slot)) << slot;
  EXPECT_FALSE(index.insert(5, kPlaces));  // Both buckets are full, and no entry can move.
  for (uint32_t wanted = 0; wanted < kPlaces; wanted++) {
    EXPECT_EQ(index.find(5, [&](uint32_t slot) { return slot == wanted; }), wanted);
  }
  index.erase(5, 7);
  EXPECT_EQ(index.find(5, [](uint32_t slot) { return slot == 7; }), SlotIndex::kNoSlot);
  EXPECT_EQ(index.find(5, [](uint32_t slot) { return slot == 8; }), 8U);
  EXPECT_TRUE(index.insert(5, kPlaces));
}

// Hashes with equal low halves have one first bucket and, by their tags, different second ones.
TEST(SlotIndex, MovesAnEntryIfBothBucketsAreFull) {
  constexpr uint32_t kEntries = SlotIndex::kEntriesPerBucket;
  constexpr uint64_t kLast = uint64_t{kEntries + 1} << 40;
  SlotIndex index(1024);
  for (uint32_t slot = 0; slot < kEntries; slot++) {
    ASSERT_TRUE(index.insert(uint64_t{slot + 1} << 40, slot));  // These fill the first bucket.
  }
  // These fill the second bucket of kLast; then one more needs the place of another entry.
  for (uint32_t i = 0; i <= kEntries; i++) ASSERT_TRUE(index.insert(kLast, kEntries + i)) << i;
  for (uint32_t wanted = 0; wanted <= 2 * kEntries; wanted++) {
    const uint64_t hash = wanted < kEntries ? uint64_t{wanted + 1} << 40 : kLast;
    EXPECT_EQ(index.find(hash, [&](uint32_t slot) { return slot == wanted; }), wanted);
  }
}

TEST(SlotIndex, RandomWalkMatchesMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (const uint32_t slot_count : {1U, 2U, 5U, 64U, 1024U, 4096U}) {
    Bed bed(slot_count);
    std::unordered_map<uint64_t, uint32_t> model;
    std::vector<uint64_t> hashes;  // Of the model, in no order.
    std::vector<uint32_t> free(slot_count);
    for (uint32_t i = 0; i < slot_count; i++) free[i] = i;
    for (uint32_t step = 0; step < 20'000; step++) {
      // Mostly full, as a store under load.
      if (!free.empty() && prng.below(8) != 0) {
        const uint64_t hash = prng.any_u64();
        ASSERT_TRUE(bed.insert(hash, free.back())) << slot_count << " slots, step " << step;
        model[hash] = free.back();
        hashes.push_back(hash);
        free.pop_back();
      } else if (!hashes.empty()) {
        std::swap(hashes[prng.below(static_cast<uint32_t>(hashes.size()))], hashes.back());
        const uint64_t hash = hashes.back();
        hashes.pop_back();
        bed.index.erase(hash, model.at(hash));
        free.push_back(model.at(hash));
        model.erase(hash);
        ASSERT_EQ(bed.find(hash), SlotIndex::kNoSlot) << "step " << step;
      }
      if (hashes.empty()) continue;
      const uint64_t known = hashes[prng.below(static_cast<uint32_t>(hashes.size()))];
      ASSERT_EQ(bed.find(known), model.at(known)) << "step " << step;
      ASSERT_EQ(bed.find(prng.any_u64()), SlotIndex::kNoSlot) << "step " << step;
    }
    for (const auto& [hash, slot] : model) ASSERT_EQ(bed.find(hash), slot);
  }
}

}  // namespace
}  // namespace tributary::memory
