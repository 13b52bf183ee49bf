// SPDX-License-Identifier: Apache-2.0
/// @file
/// The record store: Trio's hash table of records, each with a 'Recently Referenced' (REF) flag
/// (Trio paper §4 "Job records", "Block records", and §5).
///
/// Model:   The hash block's insert, lookup and delete. A hash index maps a key to a slot of a
///          dense slab. Beside it lie the REF flags, 64 to a word (memory/ref_bits.h).
/// Shapes:  `capacity` slots. A record stays where it is from create() to erase().
/// Threads: Owned by one thread, so the index (libcuckoo) is used without its locks.
/// Errors:  create() on a full store or a full index is refused and counted; neither grows.
/// Memory:  All of it is taken in the constructor; unused slots are not touched. Later only the
///          refusal kIndexFull allocates (an exception inside libcuckoo, caught here).
/// Tests:   tests/memory/record_store_test.cc, tests/memory/record_store_bench.cc
#pragma once

#include <cstdint>
#include <functional>
#include <libcuckoo/cuckoohash_map.hh>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/assert.h"
#include "memory/ref_bits.h"

namespace tributary::memory {

enum class CreateStatus : uint8_t {
  kCreated,
  kExists,     ///< The key has a record: returned, with its REF flag set as by lookup().
  kStoreFull,  ///< All slots are taken.
  kIndexFull,  ///< The key's places in the index are taken; only if many keys hash alike.
};

/// `Key` and `Record` are plain values; `Hash{}(key)` returns a 64-bit hash. The store mixes that
/// hash with a seed, so a weak Hash (the key itself) is good enough. A sender that does not know
/// the seed cannot aim its keys at one place of the index.
template <class Key, class Record, class Hash = std::hash<Key>>
class RecordStore {
  static_assert(std::is_trivially_copyable_v<Key>);
  static_assert(std::is_nothrow_default_constructible_v<Record>);
  static_assert(std::is_trivially_destructible_v<Record>);

 public:
  struct Config {
    uint32_t capacity = 0;   ///< Records, 1 to kCapacityMax.
    uint64_t hash_seed = 0;  ///< Live: random. Modelled: any constant; no result depends on it.
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

  /// @param config A capacity out of range is a bug; check a user's value before.
  explicit RecordStore(const Config& config);

  RecordStore(const RecordStore&) = delete;  // Callers hold pointers to records.
  RecordStore& operator=(const RecordStore&) = delete;

  /// Makes a value-initialised record for `key` and sets its REF flag.
  [[nodiscard]] Created create(const Key& key);

  /// Returns the record of `key`, or null. Sets its REF flag.
  [[nodiscard]] Record* lookup(const Key& key) {
    const uint32_t slot = find_slot(key);
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
    const uint32_t slot = find_slot(key);
    return slot == kNoSlot ? nullptr : &slab_[slot];
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

  /// Sets the REF flag of a live record of this store.
  void touch(const Record* record) { bits_.touch(slot_of(record)); }

  /// Returns the slot of a record of this store.
  [[nodiscard]] uint32_t slot_of(const Record* record) const {
    const auto slot = static_cast<uint64_t>(record - slab_);
    TRIB_ASSERT(slot < capacity());
    return static_cast<uint32_t>(slot);
  }

  [[nodiscard]] uint32_t size() const { return capacity() - static_cast<uint32_t>(free_.size()); }
  [[nodiscard]] uint32_t capacity() const { return bits_.capacity(); }
  [[nodiscard]] bool is_full() const { return free_.empty(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  /// Hashes, mixes in the seed, then applies the finaliser of SplitMix64, which spreads every bit
  /// over all others. Both parts must look random: libcuckoo takes a key's first bucket from the
  /// low bits and the step to its second from a fold of all bits.
  struct SeededHash {
    uint64_t seed;
    uint64_t operator()(const Key& key) const {
      uint64_t z = (static_cast<uint64_t>(Hash{}(key)) ^ seed) + 0x9e3779b97f4a7c15ULL;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      return z ^ (z >> 31);
    }
  };
  using Index = libcuckoo::cuckoohash_map<Key, uint32_t, SeededHash>;

  /// Places in the index for each record. With buckets of four, insertion starts to fail near 95 %
  /// full; at half full it does not (see tests).
  static constexpr size_t kIndexPlacesPerRecord = 2;

  [[nodiscard]] uint32_t find_slot(const Key& key) const {
    const auto found = locked_index_.find(key);
    return found == locked_index_.end() ? kNoSlot : found->second;
  }

  /// Returns create()'s reply for a key that already has a record.
  Created existing(uint32_t slot) {
    bits_.touch(slot);
    return {CreateStatus::kExists, &slab_[slot]};
  }

  struct SlabDeleter {
    uint32_t capacity;
    void operator()(Record* slab) const { std::allocator<Record>().deallocate(slab, capacity); }
  };

  // Read by every lookup.
  Index index_;
  typename Index::locked_table locked_index_;  ///< Holds all locks for the store's whole life.
  std::unique_ptr<Record, SlabDeleter> slab_memory_;
  Record* slab_;  ///< Shape [capacity]; constructed where live.
  RefBits bits_;
  Counters counters_;
  // Read by create, erase and scans.
  std::vector<Key> keys_;       ///< Shape [capacity]; valid where live.
  std::vector<uint32_t> free_;  ///< Free slots. The last one is taken next; slot 0 is taken first.
};

template <class Key, class Record, class Hash>
RecordStore<Key, Record, Hash>::RecordStore(const Config& config)
    : index_(kIndexPlacesPerRecord * config.capacity, SeededHash{config.hash_seed}),
      locked_index_(index_.lock_table()),
      slab_memory_(std::allocator<Record>().allocate(config.capacity),
                   SlabDeleter{config.capacity}),
      slab_(slab_memory_.get()),
      bits_(config.capacity),
      keys_(config.capacity),
      free_(config.capacity) {
  TRIB_ASSERT(config.capacity > 0 && config.capacity <= kCapacityMax);
  locked_index_.maximum_hashpower(locked_index_.hashpower());
  for (uint32_t i = 0; i < config.capacity; i++) free_[i] = config.capacity - 1 - i;
}

template <class Key, class Record, class Hash>
auto RecordStore<Key, Record, Hash>::create(const Key& key) -> Created {
  if (free_.empty()) [[unlikely]] {
    const uint32_t slot = find_slot(key);
    if (slot != kNoSlot) return existing(slot);
    counters_.refused_store_full++;
    return {CreateStatus::kStoreFull, nullptr};
  }
  const uint32_t slot = free_.back();
  try {
    auto [place, is_new] = locked_index_.insert(key, slot);  // One probe answers both questions.
    if (!is_new) return existing(place->second);
  } catch (const libcuckoo::maximum_hashpower_exceeded&) {
    // libcuckoo throws this instead of growing. It has changed nothing.
    counters_.refused_index_full++;
    return {CreateStatus::kIndexFull, nullptr};
  }
  free_.pop_back();
  keys_[slot] = key;
  bits_.mark_live(slot);
  counters_.created++;
  return {CreateStatus::kCreated, std::construct_at(&slab_[slot])};
}

template <class Key, class Record, class Hash>
bool RecordStore<Key, Record, Hash>::erase(const Key& key) {
  const Key key_copy = key;  // `key` may lie in the record to erase.
  const uint32_t slot = find_slot(key_copy);
  if (slot == kNoSlot) return false;
  locked_index_.erase(key_copy);
  bits_.clear_live(slot);
  free_.push_back(slot);  // Never beyond `capacity`, so it does not allocate.
  counters_.erased++;
  return true;
}

}  // namespace tributary::memory
