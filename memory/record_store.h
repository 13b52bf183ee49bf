// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record store: Trio's hash table of records, each with a 'Recently Referenced' (REF) flag
/// (Trio paper §4 "Job records", "Block records", and §5).
///
/// Model:   A hash index maps a key to a slot of a dense slab; beside it lie the REF flags, 64 to a
///          word. With a Place, records, buckets and flags have addresses in shared memory.
/// Shapes:  `capacity` slots. A record stays where it is from create() to erase().
/// Threads: Owned by one thread.
/// Errors:  create() on a full store or a full index is refused and counted; neither grows.
/// Memory:  Taken in the constructor; unused records are not touched. Later nothing allocates.
/// Tests:   tests/memory/record_store_test.cc, tests/memory/record_store_bench.cc
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/assert.h"
#include "memory/hash_buckets.h"
#include "memory/ref_bits.h"
#include "memory/shared_memory.h"
#include "memory/slot_index.h"

namespace tributary::memory {

enum class CreateStatus : uint8_t {
  kCreated,
  kExists,     ///< The key has a record: returned, with its REF flag set as by lookup().
  kStoreFull,  ///< All slots are taken.
  kIndexFull,  ///< The key's places in the index are taken; only if many keys hash alike.
};

/// Records that one scan transaction visits: one word of REF flags.
inline constexpr uint32_t kRecordsPerScan = 64;

/// `Key` and `Record` are plain values; `Hash{}(key)` returns a 64-bit hash. The store mixes that
/// hash with a seed, so a weak Hash (the key itself) is good enough for keys of up to 64 bits. A
/// Hash for longer keys should take the seed: `Hash{}(key, seed)`. Then a sender that does not know
/// the seed cannot aim its keys at one place of the index.
template <class Key, class Record, class Hash = std::hash<Key>>
class RecordStore {
  static_assert(std::is_trivially_copyable_v<Key>);
  static_assert(std::is_nothrow_default_constructible_v<Record>);
  static_assert(std::is_trivially_destructible_v<Record>);

 public:
  /// The store's place in shared memory. Only the records are ever touched: the host's index and
  /// REF flags are elsewhere, and the ranges below give them addresses.
  struct Place {
    std::byte* records = nullptr;        ///< Zeroed, for `capacity` records; null: the heap.
    const std::byte* buckets = nullptr;  ///< bucket_mask + 1 buckets of kHashBucketBytes.
    uint64_t bucket_mask = 0;
    const std::byte* ref_flags = nullptr;  ///< kRefFlagBytes for each record.
  };
  struct Config {
    uint32_t capacity = 0;   ///< Records, 1 to kCapacityMax.
    uint64_t hash_seed = 0;  ///< Live: random. Modelled: any constant.
    Place place{};
  };
  static constexpr uint32_t kCapacityMax = uint32_t{1} << 30;

  struct Created {
    CreateStatus status;
    Record* record;  ///< Null if refused.
  };

  /// Written by the calls below only.
  struct Counters {
    uint64_t created = 0;
    uint64_t erased = 0;
    uint64_t found = 0;   ///< lookup() found the record.
    uint64_t missed = 0;  ///< lookup() found none.
    uint64_t refused_store_full = 0;
    uint64_t refused_index_full = 0;
  };

  /// Returns the bytes of a Place, without alignment.
  [[nodiscard]] static constexpr uint64_t place_bytes(uint32_t capacity) {
    return uint64_t{capacity} * (sizeof(Record) + kRefFlagBytes) +
           HashBuckets::bucket_count(capacity) * kHashBucketBytes;
  }
  /// Allocates a Place in DRAM. It is never released, so it lives as long as `memory`.
  /// @return an Error if too little is left.
  [[nodiscard]] static Result<Place> place_in(SharedMemory& memory, uint32_t capacity);

  /// @param config A capacity out of range is a bug; check a user's value before.
  explicit RecordStore(const Config& config);

  RecordStore(const RecordStore&) = delete;  // Callers hold pointers to records.
  RecordStore& operator=(const RecordStore&) = delete;

  /// Makes a value-initialised record for `key` and sets its REF flag.
  [[nodiscard]] Created create(const Key& key);

  /// Returns the record of `key`, or null. Sets its REF flag.
  [[nodiscard]] Record* lookup(const Key& key) { return lookup(key, hash_of(key)); }
  /// Looks up a key whose hash the caller knows. @param hash hash_of(key)
  [[nodiscard]] Record* lookup(const Key& key, uint64_t hash) {
    const uint32_t slot = find_slot(key, hash);
    if (slot == kNoSlot) {
      counters_.missed++;
      return nullptr;
    }
    counters_.found++;
    bits_.touch(slot);
    return &slab_[slot];
  }

  /// Returns the record of `key`, or null, and leaves its REF flag as it is. For timers, reports
  /// and tests.
  [[nodiscard]] Record* peek(const Key& key) {
    const uint32_t slot = find_slot(key, hash_of(key));
    return slot == kNoSlot ? nullptr : &slab_[slot];
  }

  // --- Prefetching -------------------------------------------------------------------------------
  // prefetch_index() for some packets, then prefetch_record() for each of them, overlaps their
  // latencies.

  /// Returns the hash with which the calls below find a key.
  [[nodiscard]] uint64_t hash_of(const Key& key) const { return index_hash_(key); }
  /// Prefetches the place of a key in the index.
  void prefetch_index(uint64_t hash) const { index_.prefetch(hash); }
  /// Prefetches the key and `size_bytes` of its record from `offset_bytes` on, if there is a
  /// record.
  /// @pre prefetch_index(hash), some time before.
  void prefetch_record(uint64_t hash, uint32_t offset_bytes = 0, uint32_t size_bytes = 1) const {
    const uint32_t slot = index_.guess(hash);
    if (slot == kNoSlot) return;
    const auto* const key = reinterpret_cast<const std::byte*>(&keys_[slot]);
    __builtin_prefetch(key);
    // A key may lie in two cache lines.
    if constexpr (64 % sizeof(Key) != 0) __builtin_prefetch(key + sizeof(Key) - 1);
    const auto* const record = reinterpret_cast<const std::byte*>(&slab_[slot]) + offset_bytes;
    for (uint32_t at = 0; at < size_bytes; at += 64) __builtin_prefetch(record + at, /*rw=*/1);
  }

  /// Erases the record of `key`. @return false if there is none.
  bool erase(const Key& key);

  /// Clears the REF flag of each live record in slots [begin, end). Calls
  /// `on_idle(slot, key, record)` if the flag was already clear. on_idle may create and erase any
  /// record, including the one passed to it; see RefBits::scan_idle().
  template <class F>
  void scan_idle(uint32_t begin, uint32_t end, F&& on_idle) {
    bits_.scan_idle(begin, end, [&](uint32_t slot) {
      const Key key = keys_[slot];  // A copy: on_idle may erase the record and reuse its slot.
      on_idle(slot, key, slab_[slot]);
    });
  }

  /// Clears the REF flag of each live record in slots [begin, end) and calls
  /// `visit(slot, key, record, idle)`; `idle` tells that the flag was already clear. visit may
  /// erase the record passed to it.
  template <class F>
  void scan(uint32_t begin, uint32_t end, F&& visit) {
    TRIB_ASSERT(begin <= end && end <= capacity());
    for (uint32_t slot = begin; slot < end; slot++) {
      if (!bits_.is_live(slot)) continue;
      const bool idle = !bits_.test_and_clear(slot);
      const Key key = keys_[slot];  // A copy: visit may erase the record.
      visit(slot, key, slab_[slot], idle);
    }
  }

  /// Sets the REF flag of a live record of this store.
  void touch(const Record* record) { bits_.touch(slot_of(record)); }

  /// Returns the slot of a record of this store.
  [[nodiscard]] uint32_t slot_of(const Record* record) const {
    const auto slot = static_cast<uint64_t>(record - slab_);
    TRIB_ASSERT(slot < capacity());
    return static_cast<uint32_t>(slot);
  }

  // --- By slot, for timers. A slot may be free, or belong to another key than before. ------------

  /// Returns the record in a slot: the last one, if the slot is free now. @pre The slot has held a
  /// record.
  [[nodiscard]] Record& at(uint32_t slot) {
    TRIB_ASSERT(slot < capacity());
    return slab_[slot];
  }
  [[nodiscard]] const Record& at(uint32_t slot) const {
    TRIB_ASSERT(slot < capacity());
    return slab_[slot];
  }
  [[nodiscard]] const Key& key_at(uint32_t slot) const { return keys_[slot]; }
  [[nodiscard]] bool is_live(uint32_t slot) const { return bits_.is_live(slot); }
  [[nodiscard]] bool is_referenced(uint32_t slot) const { return bits_.is_referenced(slot); }
  /// Returns the live slots from `begin` on, a multiple of 64, as bits of one word.
  [[nodiscard]] uint64_t live_mask(uint32_t begin) const { return bits_.live_mask(begin); }

  // --- Targets of XTXNs (@pre the store has a Place) ---------------------------------------------

  /// Returns the bucket of a key.
  [[nodiscard]] const std::byte* bucket_of(const Key& key) const {
    return buckets_.home_of(hash_of(key));
  }
  /// Returns the hash table, for the prices of operations on it.
  [[nodiscard]] const HashBuckets& buckets() const { return buckets_; }
  /// Returns the REF flag of a slot.
  [[nodiscard]] const std::byte* ref_flag_of(uint32_t slot) const {
    return place_.ref_flags + uint64_t{slot} * kRefFlagBytes;
  }

  [[nodiscard]] uint32_t size() const { return capacity() - static_cast<uint32_t>(free_.size()); }
  [[nodiscard]] uint32_t capacity() const { return bits_.capacity(); }
  [[nodiscard]] bool is_full() const { return free_.empty(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr uint32_t kNoSlot = SlotIndex::kNoSlot;

  /// Hashes, mixes in the seed, then applies the finaliser of SplitMix64, which spreads every bit
  /// over all others: the index uses the low and the high half apart.
  struct SeededHash {
    uint64_t seed;
    [[nodiscard]] uint64_t hash(const Key& key) const {
      if constexpr (std::is_invocable_v<Hash, const Key&, uint64_t>) {
        return Hash{}(key, seed);
      } else {
        return static_cast<uint64_t>(Hash{}(key)) ^ seed;
      }
    }
    uint64_t operator()(const Key& key) const {
      uint64_t z = hash(key) + 0x9e3779b97f4a7c15ULL;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      return z ^ (z >> 31);
    }
  };

  [[nodiscard]] uint32_t find_slot(const Key& key, uint64_t hash) const {
    return index_.find(hash, [&](uint32_t slot) { return are_equal(keys_[slot], key); });
  }

  /// Compares keys. Whole words at once where their bytes decide: a call of memcmp costs more than
  /// the rest of a look-up.
  static bool are_equal(const Key& a, const Key& b) {
    if constexpr (std::has_unique_object_representations_v<Key> && sizeof(Key) % 8 == 0) {
      using Words = std::array<uint64_t, sizeof(Key) / 8>;
      const auto words_a = std::bit_cast<Words>(a), words_b = std::bit_cast<Words>(b);
      uint64_t differing = 0;
      for (size_t i = 0; i < words_a.size(); i++) differing |= words_a[i] ^ words_b[i];
      return differing == 0;
    } else {
      return a == b;
    }
  }

  struct SlabDeleter {
    uint32_t capacity;
    void operator()(Record* slab) const { std::allocator<Record>().deallocate(slab, capacity); }
  };

  static Record* heap_slab(const Config& config) {
    return config.place.records == nullptr ? std::allocator<Record>().allocate(config.capacity)
                                           : nullptr;
  }

  // Read by every lookup.
  SlotIndex index_;
  std::vector<Key> keys_;                             ///< Shape [capacity]; valid where live.
  std::unique_ptr<Record, SlabDeleter> slab_memory_;  ///< Null if the slab is in shared memory.
  SeededHash index_hash_;
  Place place_;
  Record* slab_;  ///< Shape [capacity]; constructed where live.
  RefBits bits_;
  Counters counters_;
  // Read by create, erase and scans.
  HashBuckets buckets_;
  std::vector<uint32_t> free_;  ///< Free slots. The last one is taken next; slot 0 is taken first.
};

template <class Key, class Record, class Hash>
RecordStore<Key, Record, Hash>::RecordStore(const Config& config)
    : index_(config.capacity),
      keys_(config.capacity),
      slab_memory_(heap_slab(config), SlabDeleter{config.capacity}),
      index_hash_{config.hash_seed},
      place_(config.place),
      slab_(place_.records == nullptr ? slab_memory_.get()
                                      : reinterpret_cast<Record*>(place_.records)),
      bits_(config.capacity),
      buckets_({.first = config.place.buckets, .bucket_mask = config.place.bucket_mask}),
      free_(config.capacity) {
  TRIB_ASSERT(config.capacity > 0 && config.capacity <= kCapacityMax);
  for (uint32_t i = 0; i < config.capacity; i++) free_[i] = config.capacity - 1 - i;
}

template <class Key, class Record, class Hash>
auto RecordStore<Key, Record, Hash>::place_in(SharedMemory& memory, uint32_t capacity)
    -> Result<Place> {
  const uint64_t buckets = HashBuckets::bucket_count(capacity);
  Place place{.bucket_mask = buckets - 1};
  std::byte* bytes[3] = {};
  const uint64_t sizes[3] = {uint64_t{capacity} * sizeof(Record), buckets * kHashBucketBytes,
                             uint64_t{capacity} * kRefFlagBytes};
  for (uint32_t i = 0; i < 3; i++) {
    const auto address = memory.allocate(Range::kDram, sizes[i],
                                         std::max<uint64_t>(alignof(Record), kHashBucketBytes));
    if (!address) return tl::unexpected(address.error());
    bytes[i] = memory.at(*address);
  }
  place.records = bytes[0];
  place.buckets = bytes[1];
  place.ref_flags = bytes[2];
  return place;
}

template <class Key, class Record, class Hash>
auto RecordStore<Key, Record, Hash>::create(const Key& key) -> Created {
  const uint64_t hash = hash_of(key);
  const uint32_t known = find_slot(key, hash);
  if (known != kNoSlot) {
    bits_.touch(known);
    return {CreateStatus::kExists, &slab_[known]};
  }
  if (free_.empty()) [[unlikely]] {
    counters_.refused_store_full++;
    return {CreateStatus::kStoreFull, nullptr};
  }
  const uint32_t slot = free_.back();
  if (!index_.insert(hash, slot)) [[unlikely]] {
    counters_.refused_index_full++;
    return {CreateStatus::kIndexFull, nullptr};
  }
  free_.pop_back();
  keys_[slot] = key;
  bits_.mark_live(slot);
  buckets_.insert(hash);
  counters_.created++;
  return {CreateStatus::kCreated, std::construct_at(&slab_[slot])};
}

template <class Key, class Record, class Hash>
bool RecordStore<Key, Record, Hash>::erase(const Key& key) {
  const uint64_t hash = hash_of(key);
  const uint32_t slot = find_slot(key, hash);
  if (slot == kNoSlot) return false;
  index_.erase(hash, slot);
  buckets_.erase(hash);
  bits_.clear_live(slot);
  free_.push_back(slot);  // Never beyond `capacity`, so it does not allocate.
  counters_.erased++;
  return true;
}

}  // namespace tributary::memory
