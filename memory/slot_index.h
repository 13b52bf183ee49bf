// SPDX-License-Identifier: Apache-2.0
/// @file
/// A hash index from keys to slots, made for prefetching: a look-up reads one 64-byte bucket, whose
/// address needs only the key's hash. The owner keeps the keys and compares them.
///
/// Model:   Cuckoo hashing with partial keys (Fan et al., "Cuckoo Filter", CoNEXT 2014, §3.1): the
///          hash's low half gives a key's first bucket, its high half a tag. The tag leads from
///          either of the key's two buckets to the other.
/// Shapes:  At least two entries a slot, in a power of two of buckets of eight.
/// Threads: Owned by one thread.
/// Errors:  insert() fails only if two buckets are full and no entry can move; see the tests.
/// Memory:  16 to 32 bytes a slot, taken in the constructor.
/// Tests:   tests/memory/slot_index_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace tributary::memory {

class SlotIndex {
 public:
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  static constexpr uint32_t kEntriesPerBucket = 8;
  static constexpr uint64_t kEntriesPerSlot = 2;

  /// @param slot_count At least 1.
  explicit SlotIndex(uint32_t slot_count)
      : buckets_(std::max<uint64_t>(
            2, std::bit_ceil((kEntriesPerSlot * slot_count + kEntriesPerBucket - 1) /
                             kEntriesPerBucket))),
        mask_(buckets_.size() - 1) {}

  /// Prefetches the bucket that a look-up reads first.
  void prefetch(uint64_t hash) const { __builtin_prefetch(&buckets_[hash & mask_]); }

  /// Returns a slot that the first bucket has for `hash`, or kNoSlot. Its key may be another one;
  /// for prefetching.
  [[nodiscard]] uint32_t guess(uint64_t hash) const {
    const Bucket& bucket = buckets_[hash & mask_];
    const uint32_t matches = matches_of(bucket, tag_of(hash));
    return matches == 0 ? kNoSlot : bucket.slots[static_cast<uint32_t>(std::countr_zero(matches))];
  }

  /// Returns the slot of a key, or kNoSlot. @param has_key Tells whether a slot holds the key.
  template <class F>
  [[nodiscard]] uint32_t find(uint64_t hash, F&& has_key) const {
    const uint32_t tag = tag_of(hash);
    const uint64_t first = hash & mask_;
    const uint32_t slot = find_in(buckets_[first], tag, has_key);
    if (slot != kNoSlot) [[likely]]
      return slot;
    return find_in(buckets_[other(first, tag)], tag, has_key);
  }

  /// Adds a key that the index does not have. @return false if it has no place; nothing changes.
  [[nodiscard]] bool insert(uint64_t hash, uint32_t slot) {
    const uint32_t tag = tag_of(hash);
    const uint64_t first = hash & mask_;
    const uint64_t second = other(first, tag);
    if (put(buckets_[first], tag, slot) || put(buckets_[second], tag, slot)) return true;
    return (make_room(first) && put(buckets_[first], tag, slot)) ||
           (make_room(second) && put(buckets_[second], tag, slot));
  }

  /// Removes the key of a slot. @pre The index has it.
  void erase(uint64_t hash, uint32_t slot) {
    const uint32_t tag = tag_of(hash);
    const uint64_t first = hash & mask_;
    for (const uint64_t place : {first, other(first, tag)}) {
      Bucket& bucket = buckets_[place];
      for (uint32_t i = 0; i < kEntriesPerBucket; i++) {
        if (bucket.tags[i] == tag && bucket.slots[i] == slot) {
          bucket.tags[i] = 0;
          return;
        }
      }
    }
  }

 private:
  /// An entry is free if its tag is 0.
  struct alignas(64) Bucket {
    std::array<uint32_t, kEntriesPerBucket> tags{};
    std::array<uint32_t, kEntriesPerBucket> slots{};
  };
  static_assert(sizeof(Bucket) == 64);

  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) | 1; }
  /// Returns the other bucket of an entry. The step is odd, so the two differ.
  [[nodiscard]] uint64_t other(uint64_t bucket, uint32_t tag) const {
    const uint64_t step = uint64_t{tag} * 0x9e3779b97f4a7c15ULL >> 32 | 1;
    return (bucket ^ step) & mask_;
  }

  /// Returns the entries with a tag as bits. No branch: where a key lies cannot be predicted.
  static uint32_t matches_of(const Bucket& bucket, uint32_t tag) {
    uint32_t matches = 0;
    for (uint32_t i = 0; i < kEntriesPerBucket; i++) {
      matches |= static_cast<uint32_t>(bucket.tags[i] == tag) << i;
    }
    return matches;
  }
  template <class F>
  static uint32_t find_in(const Bucket& bucket, uint32_t tag, F& has_key) {
    for (uint32_t matches = matches_of(bucket, tag); matches != 0; matches &= matches - 1) {
      const uint32_t slot = bucket.slots[static_cast<uint32_t>(std::countr_zero(matches))];
      if (has_key(slot)) return slot;
    }
    return kNoSlot;
  }

  static bool put(Bucket& bucket, uint32_t tag, uint32_t slot) {
    const uint32_t free = matches_of(bucket, 0);
    if (free == 0) return false;
    const auto i = static_cast<uint32_t>(std::countr_zero(free));
    bucket.tags[i] = tag;
    bucket.slots[i] = slot;
    return true;
  }
  /// Moves one entry of a full bucket to its other bucket. @return false if none can move.
  bool make_room(uint64_t place) {
    Bucket& bucket = buckets_[place];
    for (uint32_t i = 0; i < kEntriesPerBucket; i++) {
      if (!put(buckets_[other(place, bucket.tags[i])], bucket.tags[i], bucket.slots[i])) continue;
      bucket.tags[i] = 0;
      return true;
    }
    return false;
  }

  std::vector<Bucket> buckets_;
  uint64_t mask_;
};

}  // namespace tributary::memory
