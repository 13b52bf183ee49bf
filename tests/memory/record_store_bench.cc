// SPDX-License-Identifier: Apache-2.0
// Finds a block's record. Compares the record store's index with the plain slab[block_id & mask]
// that an aggregation job's window allows. The argument is the number of live records, 64 bytes
// each. "random": keys in random order, so neither the caches nor the branch predictor learn the
// sequence. "window": keys in order of arrival, because a job sends ascending block ids. "cycle":
// the life of a block, which is create, four lookups (one for each source) and erase.
#include <benchmark/benchmark.h>

#include <libcuckoo/cuckoohash_map.hh>
#include <vector>

#include "base/prng.h"
#include "memory/record_store.h"

namespace tributary::memory {
namespace {

struct BlockKey {
  uint32_t job_id;
  uint32_t block_id;
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};
struct BlockKeyHash {
  uint64_t operator()(const BlockKey& key) const {
    return uint64_t{key.job_id} << 32 | key.block_id;
  }
};
struct alignas(64) Record {
  uint64_t value = 0;
};
using Store = RecordStore<BlockKey, Record, BlockKeyHash>;

constexpr uint32_t kSequence = 1 << 16;

std::vector<uint32_t> block_ids(uint32_t live, bool random) {
  Prng prng(1);
  std::vector<uint32_t> ids(kSequence);
  for (uint32_t i = 0; i < kSequence; i++) ids[i] = random ? prng.below(live) : i % live;
  return ids;
}

void store_lookup(benchmark::State& state, bool random) {
  const auto live = static_cast<uint32_t>(state.range(0));
  Store store({.capacity = live, .hash_seed = 1});
  for (uint32_t block = 0; block < live; block++) store.create({1, block}).record->value = block;
  const std::vector<uint32_t> ids = block_ids(live, random);
  uint64_t checksum = 0;
  uint32_t i = 0;
  for (auto _ : state) checksum += store.lookup({1, ids[i++ % kSequence]})->value;
  benchmark::DoNotOptimize(checksum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(store_lookup, random, true)->Arg(1024)->Arg(65536);
BENCHMARK_CAPTURE(store_lookup, window, false)->Arg(1024)->Arg(65536);

void direct_slot(benchmark::State& state, bool random) {
  const auto live = static_cast<uint32_t>(state.range(0));  // A power of two.
  std::vector<Record> slab(live);
  for (uint32_t block = 0; block < live; block++) slab[block].value = block;
  const std::vector<uint32_t> ids = block_ids(live, random);
  uint64_t checksum = 0;
  uint32_t i = 0;
  for (auto _ : state) checksum += slab[ids[i++ % kSequence] & (live - 1)].value;
  benchmark::DoNotOptimize(checksum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(direct_slot, random, true)->Arg(1024)->Arg(65536);
BENCHMARK_CAPTURE(direct_slot, window, false)->Arg(1024)->Arg(65536);

/// The store's hash, made visible.
struct MixedHash {
  uint64_t operator()(const BlockKey& key) const { return Prng(BlockKeyHash{}(key)).any_u64(); }
};

/// libcuckoo as supplied, with its locks: the cost of an index shared by threads.
void libcuckoo_with_locks(benchmark::State& state) {
  const auto live = static_cast<uint32_t>(state.range(0));
  libcuckoo::cuckoohash_map<BlockKey, uint32_t, MixedHash> index(2 * live);
  for (uint32_t block = 0; block < live; block++) index.insert(BlockKey{1, block}, block);
  const std::vector<uint32_t> ids = block_ids(live, true);
  uint64_t checksum = 0;
  uint32_t i = 0;
  for (auto _ : state) {
    index.find_fn(BlockKey{1, ids[i++ % kSequence]}, [&](uint32_t slot) { checksum += slot; });
  }
  benchmark::DoNotOptimize(checksum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(libcuckoo_with_locks)->Arg(1024)->Arg(65536);

void store_cycle(benchmark::State& state) {
  const auto live = static_cast<uint32_t>(state.range(0));
  Store store({.capacity = live, .hash_seed = 1});
  uint32_t block = 0;
  for (; block < live; block++) store.create({1, block}).record->value = block;
  uint64_t checksum = 0;
  for (auto _ : state) {
    store.erase({1, block - live});
    store.create({1, block}).record->value = block;
    for (uint32_t source = 0; source < 4; source++) checksum += store.lookup({1, block})->value;
    block++;
  }
  benchmark::DoNotOptimize(checksum);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(store_cycle)->Arg(1024)->Arg(65536);

}  // namespace
}  // namespace tributary::memory
