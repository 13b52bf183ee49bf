// SPDX-License-Identifier: Apache-2.0
/// @file
/// The buckets of a hash table in shared memory: the addresses that a hash operation on a key
/// visits (Trio paper §3.1). Machines that model time price an operation by them.
///
/// Model:   A key's hash names its home bucket. Keys beyond the kKeysPerBucket that fit there are
///          in overflow buckets. An operation visits the home bucket and its overflow buckets, one
///          after the other. The paper does not describe the table ("assumed").
/// Shapes:  A power of two of buckets, with at least two places for each key.
/// Threads: Owned by one thread.
/// Memory:  Only the buckets' addresses count; their bytes are never touched. Four bytes a bucket
///          are taken from the heap in the constructor.
/// Tests:   tests/memory/hash_buckets_test.cc
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.h"

namespace tributary::memory {

/// Bytes of a bucket. Assumed: one largest request.
inline constexpr uint32_t kHashBucketBytes = 64;
/// Keys of a bucket. Assumed: half of those in the host's index, which keeps only their tags.
inline constexpr uint32_t kKeysPerBucket = 4;
/// Bytes from one record's REF flag to the next. Assumed: one smallest request, as in the model's
/// ref_flag_bytes.
inline constexpr uint32_t kRefFlagBytes = 8;

class HashBuckets {
 public:
  struct Place {
    const std::byte* first = nullptr;  ///< bucket_mask + 1 buckets; null: the table has no place.
    uint64_t bucket_mask = 0;
  };

  /// Returns the number of buckets of a table for this many keys.
  [[nodiscard]] static constexpr uint64_t bucket_count(uint64_t key_count) {
    return std::bit_ceil(kPlacesPerKey * key_count / kKeysPerBucket + 1);
  }

  /// Makes an empty table.
  explicit HashBuckets(const Place& place)
      : place_(place), keys_(place.first == nullptr ? 0 : place.bucket_mask + 1) {}

  /// Return the table's buckets. Without a place there are none.
  [[nodiscard]] const std::byte* first() const { return place_.first; }
  [[nodiscard]] uint64_t size_bytes() const { return keys_.size() * kHashBucketBytes; }

  /// Count a key. Without a place they do nothing. @pre erase(): the key was inserted.
  void insert(uint64_t hash) {
    if (!keys_.empty()) keys_[hash & place_.bucket_mask]++;
  }
  void erase(uint64_t hash) {
    if (keys_.empty()) return;
    uint32_t& keys = keys_[hash & place_.bucket_mask];
    TRIB_ASSERT(keys > 0);
    keys--;
  }
  /// Erases all keys.
  void clear() { std::fill(keys_.begin(), keys_.end(), 0); }

  // --- Addresses (@pre the table has a place) ----------------------------------------------------

  /// Returns the home bucket of a key.
  [[nodiscard]] const std::byte* home_of(uint64_t hash) const {
    return place_.first + (hash & place_.bucket_mask) * kHashBucketBytes;
  }
  /// Returns the number of buckets that an operation on a key with this home visits, at least 1.
  [[nodiscard]] uint32_t chain_length(const void* home) const {
    const uint32_t keys = keys_[index_of(home)];
    return std::max(1U, (keys + kKeysPerBucket - 1) / kKeysPerBucket);
  }
  /// Returns a bucket of a home's chain; 0 is the home bucket. Charges overflow bucket n of a home
  /// at the address of bucket home + n. Assumed: like any other bucket's, its bank is unrelated to
  /// those of the keys that are in use at the same time.
  [[nodiscard]] const std::byte* chained(const void* home, uint32_t number) const {
    return place_.first + ((index_of(home) + number) & place_.bucket_mask) * kHashBucketBytes;
  }

 private:
  /// Places for each key: half of them stay free, so that few buckets overflow. Assumed.
  static constexpr uint64_t kPlacesPerKey = 2;

  [[nodiscard]] uint64_t index_of(const void* home) const {
    const auto offset = static_cast<const std::byte*>(home) - place_.first;
    const auto index = static_cast<uint64_t>(offset) / kHashBucketBytes;
    TRIB_ASSERT(index < keys_.size());
    return index;
  }

  Place place_;
  std::vector<uint32_t> keys_;  ///< Shape [bucket_mask + 1]: keys with this home.
};

}  // namespace tributary::memory
