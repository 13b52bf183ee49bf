// SPDX-License-Identifier: Apache-2.0
#include "apps/trio_ml/block_window.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>
#include <vector>

#include "base/mutant.h"

namespace tributary::trio_ml {
namespace {

constexpr uint32_t kCacheLineBytes = 64;

/// The smallest window whose places share buffers. Assumed: far above the number of packets that
/// workers keep in flight.
constexpr uint32_t kWindowSharesBuffers = 1024;

constexpr uint32_t rounded_up(uint32_t size, uint32_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

/// Returns a Found without a record.
Found of(Found::Kind kind) {
  Found found;
  found.kind = kind;
  return found;
}

template <class T>
Result<T*> make_array(memory::HeldMemory& held, uint32_t item_count) {
  const auto bytes =
      held.allocate(memory::Range::kDram, uint64_t{item_count} * sizeof(T), kCacheLineBytes);
  if (!bytes) return tl::unexpected(bytes.error());
  T* items = reinterpret_cast<T*>(*bytes);
  std::uninitialized_default_construct_n(items, item_count);
  return items;
}

}  // namespace

WindowShape::WindowShape(const JobConfig& config, uint32_t shard_count)
    // An asynchronous job has no blocks in progress: its ParameterStore takes the contributions.
    : place_count(config.asynchronous ? 1
                                      : std::max(config.block_cnt_max / shard_count,
                                                 std::min(config.block_cnt_max, kBlocksPerRun))),
      history(config.history),
      buffer_bytes(
          rounded_up(wire::kUnsealedHeadBytesMax + config.block_grad_max * 4, kCacheLineBytes)),
      seal_room_bytes(config.auth.mode == auth::Mode::kNone ? 0 : kCacheLineBytes) {
  buffer_bytes += seal_room_bytes;
  // One buffer for each block in progress and each kept result. All are in use only while one
  // source is a whole window ahead of another. A large window has fewer buffers: it saves as much
  // memory as the records take. A source that is a whole window ahead then gets its last few
  // hundred blocks refused (kNoBuffer) and retransmits them.
  buffer_count = place_count * (history + 1);
  if (place_count < kWindowSharesBuffers || !config.shared_buffers) return;
  const uint64_t record_bytes =
      place_count * (sizeof(BlockRecord) + 1 + uint64_t{history} * sizeof(ResultRecord));
  const uint64_t lane_bytes = uint64_t{config.block_grad_max} * 4;
  const uint64_t overhead = record_bytes + uint64_t{buffer_count} * (buffer_bytes - lane_bytes);
  const auto records = static_cast<uint32_t>((overhead + buffer_bytes - 1) / buffer_bytes);
  buffer_count -= std::min(records, place_count / 8);
}

uint64_t WindowShape::memory_bytes() const {
  return uint64_t{buffer_count} * buffer_bytes +
         place_count * (sizeof(BlockRecord) + 1 + uint64_t{history} * sizeof(ResultRecord));
}

Result<BlockWindow> BlockWindow::create(const JobConfig& config, uint32_t shard_count,
                                        memory::SharedMemory& memory) {
  const WindowShape shape(config, shard_count);
  BlockWindow window(shape, memory);
  window.core_shift_ = static_cast<uint32_t>(std::countr_zero(shard_count));
  window.place_in_run_mask_ = (shape.place_count - 1) & (kBlocksPerRun - 1);
  window.run_mask_ = (shape.place_count - 1) & ~(kBlocksPerRun - 1);
  const auto places = make_array<BlockRecord>(window.held_, shape.place_count);
  if (!places) return tl::unexpected(places.error());
  const auto results = make_array<ResultRecord>(window.held_, shape.place_count * shape.history);
  if (!results) return tl::unexpected(results.error());
  const auto newest = make_array<uint8_t>(window.held_, shape.place_count);
  if (!newest) return tl::unexpected(newest.error());
  const auto buffers = window.held_.allocate(
      memory::Range::kDram, uint64_t{shape.buffer_count} * shape.buffer_bytes, kCacheLineBytes);
  if (!buffers) return tl::unexpected(buffers.error());

  window.places_ = *places;
  window.results_ = *results;
  window.newest_ = *newest;
  window.buffers_ = *buffers + shape.seal_room_bytes;
  for (uint32_t buffer = shape.buffer_count; buffer > 0; buffer--) window.free_.push(buffer - 1);
  window.reset();
  return window;
}

void BlockWindow::reset() {
  std::vector<bool> is_taken(shape_.buffer_count);  // By a block that threads work on.
  for (uint32_t place = 0; place < shape_.place_count; place++) {
    BlockRecord& block = places_[place];
    newest_[place] = 0;
    if (has_threads(block)) {
      block.phase = BlockPhase::kDiscarded;
      block.closing = true;  // The last thread that adds to it gets true from settle().
      block.generation = 0;  // No lookup finds it: generations begin at kGenerationBase.
      is_taken[block.aggr_buffer] = true;
      continue;
    }
    // Keeps the incarnation, which the next block at the place increments, and refuses sources: a
    // thread that looked up the old block must not be admitted.
    const uint16_t incarnation = block.incarnation;
    block = BlockRecord{};
    block.incarnation = incarnation;
    block.closing = true;
    block.place = place;
  }
  std::fill_n(results_, size_t{shape_.place_count} * shape_.history, ResultRecord{});
  // Packets that were sent from a buffer in use may not have left.
  std::vector<bool> was_free(shape_.buffer_count);
  for (const uint32_t buffer : free_.numbers()) was_free[buffer] = true;
  free_.clear();
  cooling_.clear();
  for (uint32_t buffer = shape_.buffer_count; buffer-- > 0;) {
    if (!is_taken[buffer]) (was_free[buffer] ? free_ : cooling_).push(buffer);
  }
  generation_latest_ = 0;
  epoch_++;
}

Found BlockWindow::find_result(uint32_t place, uint64_t generation, uint32_t block_id) {
  ResultRecord* ring = &results_[size_t{place} * shape_.history];
  for (uint32_t i = 0; i < shape_.history; i++) {
    ResultRecord& kept = ring[i];
    if (kept.valid && kept.generation == generation &&
        (kept.block_id == block_id || TRIB_MUTANT(kStaleResult))) {
      Found found = of(Found::Kind::kResult);
      found.result = &kept;
      return found;
    }
  }
  return of(generation < generation_latest_ ? Found::Kind::kStaleGeneration
                                            : Found::Kind::kPastCache);
}

Found BlockWindow::find_slow(uint32_t block_id, uint64_t generation) {
  const uint32_t place = place_of(block_id);
  const BlockRecord& block = places_[place];
  const bool taken = block.phase != BlockPhase::kFree;
  const ResultRecord& last = newest(place);
  const bool older_than_block =
      taken && is_older(generation, block_id, block.generation, block.block_id);
  const bool not_newer_than_results =
      last.valid && !is_older(last.generation, last.block_id, generation, block_id);
  if (older_than_block || not_newer_than_results) return find_result(place, generation, block_id);

  if (generation_latest_ != 0) {
    // No source starts a block of a generation that every source has finished.
    if (generation < generation_latest_) return of(Found::Kind::kStaleGeneration);
    if (generation - generation_latest_ > kGenerationsAheadMax) {
      return of(Found::Kind::kFutureGeneration);
    }
  }
  if (taken) {
    // A block whose result is being made is not abandoned. One that waits for the upper
    // aggregator's answer may be.
    const bool abandoned = !has_threads(block) && block.block_age >= kAbandonedAge;
    if (!abandoned) return of(Found::Kind::kWindowExceeded);
  }
  return of(Found::Kind::kAbsent);
}

BlockWindow::Inserted BlockWindow::insert(BlockName name, const BlockTerms& terms,
                                          bool clear_lanes) {
  const Found found = find(name);
  if (found.kind == Found::Kind::kActive) {
    return {Insert::kExists, found.block, found.incarnation, false};
  }
  if (found.kind != Found::Kind::kAbsent) return {Insert::kRefused, nullptr, 0, false};
  BlockRecord& block = places_[place_of(name.block_id)];
  const bool superseded = block.phase != BlockPhase::kFree;
  if (free_.size() == 0 && (!superseded || block.phase == BlockPhase::kSentUp)) {
    // Otherwise a place whose buffers are all in use would wait for ever.
    if (superseded) forget_results(block);
    return {Insert::kNoBuffer, nullptr, 0, false};
  }
  if (superseded) abandon(block);
  Inserted inserted = make_block(block, continued(name), name, terms, clear_lanes);
  inserted.superseded = superseded;
  return inserted;
}

void BlockWindow::forget_results(const BlockRecord& block) {
  for (uint32_t i = 0; i < shape_.history; i++) {
    ResultRecord& kept = results_[size_t{place_of(block)} * shape_.history + i];
    if (std::exchange(kept.valid, false)) cooling_.push(kept.aggr_buffer);
  }
}

void BlockWindow::abandon(BlockRecord& block) {
  // Only a sum that was sent may still be on its way out.
  (block.phase == BlockPhase::kAggregating ? free_ : cooling_).push(block.aggr_buffer);
  free_record(block);
}

}  // namespace tributary::trio_ml
