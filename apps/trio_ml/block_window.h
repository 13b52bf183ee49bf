// SPDX-License-Identifier: Apache-2.0
/// @file
/// The blocks of one job on one core: those in progress and the results still kept.
///
/// Model:   The paper finds a block by hashing (job_id, block_id) (§4). A job's blocks form a
///          window that moves forward, so here place = block_id modulo window: one load, no index.
///          A place holds at most one block in progress and the last `history` results. One kept
///          result for each place repairs any loss; docs/aggregation-protocol.md has the argument.
/// Order:   Plain blocks are ordered by (generation, block_id), blocks of a session by block_id.
/// Memory:  Taken from SharedMemory at configuration time, returned when the window ends.
/// Threads: Owned by one shard.
/// Tests:   tests/apps/trio_ml/block_window_test.cc
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "apps/trio_ml/config.h"
#include "apps/trio_ml/records.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "memory/held_memory.h"
#include "memory/shared_memory.h"

namespace tributary::trio_ml {

using wire::kBlocksPerRun;
using wire::owner_of;

/// Limit on how far a block's generation may be ahead of the newest generation seen. A source is at
/// most one ahead; the rest is for clients that skip numbers. The limit defines kFutureGeneration.
inline constexpr uint64_t kGenerationsAheadMax = 8;

/// Scans without a contribution after which a block in progress may be superseded by a newer one.
inline constexpr uint8_t kAbandonedAge = 2;

/// The sizes of a window, computed from a job's configuration.
struct WindowShape {
  WindowShape(const JobConfig& config, uint32_t shard_count);
  [[nodiscard]] uint64_t memory_bytes() const;

  uint32_t place_count;  ///< Power of two.
  uint32_t history;
  uint32_t buffer_bytes;  ///< Head room and lanes, a multiple of 64.
  /// Bytes in front of a buffer, for the part of a sealed head that exceeds the usual head room.
  /// Included in buffer_bytes.
  uint32_t seal_room_bytes;
  uint32_t buffer_count;
};

/// The name of the block that a message is about.
struct BlockName {
  uint16_t gen_id;
  uint32_t block_id;
  bool extended;  ///< Block of a session: gen_id does not order it.
};

/// The terms of a new block: its first contribution's description and the expected sources.
struct BlockTerms {
  uint32_t tensor_elements = 0;
  uint32_t scale_bits = 0;
  uint16_t grad_cnt = 0;
  wire::ElementFormat format = wire::ElementFormat::kInt32;
  bool extended = false;
  SourceMask expected{};
};

/// The result of looking up a block.
struct Found {
  enum class Kind : uint8_t {
    kActive,          ///< `block` is in progress, or sent to the upper aggregator.
    kResult,          ///< The block is complete and `result` kept.
    kAbsent,          ///< Newer than everything at its place; may be created.
    kWindowExceeded,  ///< An older block in progress holds the place.
    kStaleGeneration,
    kFutureGeneration,
    kPastCache,  ///< The generation is current, but the result is not kept.
  };
  Kind kind = Kind::kAbsent;
  BlockRecord* block = nullptr;  ///< kAbsent: the free record at its place, if there is one.
  ResultRecord* result = nullptr;
  uint64_t generation = 0;   ///< Orders the block that was looked up.
  uint16_t incarnation = 0;  ///< The block's, at the time of the lookup.
};

class BlockWindow {
 public:
  /// Takes the window's memory. @return an Error if shared memory has too little left.
  /// @param memory Must outlive the window, and must not move meanwhile.
  static Result<BlockWindow> create(const JobConfig& config, uint32_t shard_count,
                                    memory::SharedMemory& memory);

  [[nodiscard]] Found find(BlockName name) {
    Found found;
    find(name, found);
    return found;
  }
  /// Finds a block, and fills in a Found that the caller keeps.
  void find(BlockName name, Found& found) {
    BlockRecord& block = places_[place_of(name.block_id)];
    found.block = &block;
    found.generation = continued(name);
    found.incarnation = block.incarnation;
    found.kind = Found::Kind::kActive;
    if (block.phase == BlockPhase::kFree) {
      found.kind = Found::Kind::kAbsent;
      if (!is_next_at(block, name.block_id, found.generation)) [[unlikely]]
        found = find_slow(name.block_id, found.generation);
    } else if (block.block_id != name.block_id || block.generation != found.generation)
        [[unlikely]] {
      found = find_slow(name.block_id, found.generation);
    }
  }

  enum class Insert : uint8_t { kCreated, kExists, kNoBuffer, kRefused };
  struct Inserted {
    Insert status;
    BlockRecord* block;
    uint16_t incarnation;
    bool superseded;  ///< It took the place of an abandoned block.
  };
  /// Makes a block and gives it a buffer. Served whole: if two threads create the same block, one
  /// gets kCreated and the other kExists. kRefused: another block has taken the place since find().
  /// @param clear_lanes Zeroes the lanes, for machines on which several threads add at once.
  Inserted insert(BlockName name, const BlockTerms& terms, bool clear_lanes);
  /// Makes the block in the free record that find() found. @pre The window is unchanged since then.
  Inserted insert_at(const Found& found, BlockName name, const BlockTerms& terms) {
    return make_block(*found.block, found.generation, name, terms, /*clear_lanes=*/false);
  }

  /// Frees the block's record and keeps its result. Drops the oldest result of the place, and its
  /// buffer cools. @pre The block's message is complete in its buffer.
  ResultRecord& retire(BlockRecord& block) {
    const uint32_t place = place_of(block);
    const uint32_t next = newest_[place] + 1U;
    newest_[place] = static_cast<uint8_t>(next == shape_.history ? 0 : next);
    ResultRecord& kept = newest(place);
    if (kept.valid && !TRIB_MUTANT(kBufferLeaked)) {
      (TRIB_MUTANT(kThawTooSoon) ? free_ : cooling_).push(kept.aggr_buffer);
    }
    kept.generation = block.generation;
    kept.block_id = block.block_id;
    kept.aggr_buffer = block.aggr_buffer;
    kept.head_bytes = block.head_bytes;
    kept.payload_bytes = static_cast<uint16_t>(payload_bytes(block));
    kept.owner_plus_one = owner_plus_one(block);
    kept.valid = true;
    free_record(block);
    return kept;
  }
  /// Drops a block in progress without a result.
  void abandon(BlockRecord& block);
  /// Drops every block, result and generation, for a new session. Buffers that were in use cool. A
  /// block that has_threads() becomes kDiscarded: it keeps its place and its buffer, and takes no
  /// further source, until the thread that would emit it calls abandon().
  void reset();
  /// Counts the calls of reset(). A thread that waits compares it with the count before: if they
  /// differ, the blocks are those of another session.
  [[nodiscard]] uint32_t epoch() const { return epoch_; }

  /// Frees the cooling buffers. @pre Everything sent from them has left.
  void free_cooling() {
    free_.push_all(cooling_);
    cooling_.clear();
  }
  [[nodiscard]] bool has_cooling() const { return cooling_.size() != 0; }

  /// Returns the place of a block's record, for REF flags and timers: [0, place_count()).
  [[nodiscard]] static uint32_t place_of(const BlockRecord& block) { return block.place; }
  [[nodiscard]] BlockRecord& at_place(uint32_t place) { return places_[place]; }
  [[nodiscard]] uint32_t place_count() const { return shape_.place_count; }

  /// Returns the lanes of a buffer. kUnsealedHeadBytesMax bytes of head room precede them, and
  /// seal_room_bytes more in front of the buffer.
  [[nodiscard]] int32_t* lanes(uint32_t aggr_buffer) const {
    return reinterpret_cast<int32_t*>(buffer(aggr_buffer) + wire::kUnsealedHeadBytesMax);
  }
  /// Returns the start of a head of `head_bytes` bytes, which ends where the lanes begin.
  [[nodiscard]] std::byte* head(uint32_t aggr_buffer, uint32_t head_bytes) const {
    return buffer(aggr_buffer) + wire::kUnsealedHeadBytesMax - head_bytes;
  }
  /// Returns a finished message: head and gradients.
  [[nodiscard]] std::span<const std::byte> message(uint32_t aggr_buffer, uint32_t head_bytes,
                                                   uint32_t payload_bytes) const {
    return {head(aggr_buffer, head_bytes), size_t{head_bytes} + payload_bytes};
  }

  [[nodiscard]] uint64_t memory_bytes() const { return shape_.memory_bytes(); }
  /// Returns gen_id of the newest generation of plain blocks; 0 if none was seen.
  [[nodiscard]] uint16_t gen_id_newest() const { return static_cast<uint16_t>(generation_latest_); }
  [[nodiscard]] uint32_t buffers_free() const { return free_.size(); }
  /// Returns the number of buffers of blocks in progress and of kept results.
  [[nodiscard]] uint32_t buffers_held() const {
    return shape_.buffer_count - free_.size() - cooling_.size();
  }
  /// Tells whether no block is in progress and no result kept.
  [[nodiscard]] bool is_empty() const { return buffers_held() == 0; }
  /// Returns the memory of all buffers. While is_empty(), nothing in it is needed.
  [[nodiscard]] std::span<std::byte> buffers() const {
    return {buffers_ - shape_.seal_room_bytes, uint64_t{shape_.buffer_count} * shape_.buffer_bytes};
  }

 private:
  /// Buffer numbers, last in, first out, so that a small window stays in cache. The array has a
  /// fixed size, so no block pays for a check for growth.
  class BufferStack {
   public:
    explicit BufferStack(uint32_t capacity)
        : numbers_(std::make_unique<uint32_t[]>(capacity)), capacity_(capacity) {}
    [[nodiscard]] uint32_t size() const { return size_; }
    [[nodiscard]] std::span<const uint32_t> numbers() const { return {numbers_.get(), size_}; }
    void clear() { size_ = 0; }
    void push(uint32_t number) {
      TRIB_ASSERT(size_ < capacity_);
      numbers_[size_++] = number;
    }
    /// @pre size() != 0.
    [[nodiscard]] uint32_t pop() { return numbers_[--size_]; }
    void push_all(const BufferStack& other) {
      TRIB_ASSERT(other.size_ <= capacity_ - size_);
      std::copy_n(other.numbers_.get(), other.size_, numbers_.get() + size_);
      size_ += other.size_;
    }

   private:
    std::unique_ptr<uint32_t[]> numbers_;  ///< Shape [capacity].
    uint32_t capacity_;
    uint32_t size_ = 0;
  };

  /// The first generation. It keeps generations from becoming negative; 0 stands for "none seen".
  static constexpr uint64_t kGenerationBase = uint64_t{1} << 16;

  BlockWindow(const WindowShape& shape, memory::SharedMemory& memory)
      : shape_(shape), free_(shape.buffer_count), cooling_(shape.buffer_count), held_(memory) {}

  [[nodiscard]] uint32_t place_of(uint32_t block_id) const {
    return (block_id & place_in_run_mask_) | (block_id >> core_shift_ & run_mask_);
  }
  /// Returns the generation that orders blocks: gen_id's 16 bits extended to 64 around the newest
  /// generation seen, so that gen_id may wrap.
  [[nodiscard]] uint64_t continued(BlockName name) const {
    if (name.extended) return kGenerationBase;
    if (generation_latest_ == 0) return kGenerationBase + name.gen_id;
    const auto ahead =
        static_cast<int16_t>(name.gen_id - static_cast<uint16_t>(generation_latest_));
    return generation_latest_ + static_cast<uint64_t>(static_cast<int64_t>(ahead));
  }
  /// Tells whether (generation, block) a precedes b. Block ids compare as serial numbers, so a
  /// stream that exceeds 2^32 blocks stays in order.
  [[nodiscard]] static bool is_older(uint64_t generation_a, uint32_t block_a, uint64_t generation_b,
                                     uint32_t block_b) {
    if (generation_a != generation_b) return generation_a < generation_b;
    return static_cast<int32_t>(block_a - block_b) < 0;
  }
  /// Tells whether the block may begin at its free place: it is newer than the place's results, and
  /// its generation may begin. A shortcut for the usual case; find_slow() has all rules.
  [[nodiscard]] bool is_next_at(const BlockRecord& block, uint32_t block_id, uint64_t generation) {
    const ResultRecord& last = newest(place_of(block));
    // For an older generation the difference wraps and so exceeds the limit.
    const bool may_begin =
        generation - generation_latest_ <= kGenerationsAheadMax || generation_latest_ == 0;
    return may_begin &&
           (!last.valid || is_older(last.generation, last.block_id, generation, block_id));
  }
  /// Finds a block that is neither in progress nor the next one at its place.
  [[nodiscard]] Found find_slow(uint32_t block_id, uint64_t generation);
  /// Makes the block in a free record if there is a buffer. Assigns field by field: a record built
  /// elsewhere and copied would be written twice.
  Inserted make_block(BlockRecord& block, uint64_t generation, BlockName name,
                      const BlockTerms& terms, bool clear_lanes) {
    if (free_.size() == 0) [[unlikely]]
      return {Insert::kNoBuffer, nullptr, 0, false};
    block.generation = generation;
    block.block_id = name.block_id;
    block.gen_id = name.gen_id;
    block.aggr_buffer = free_.pop();
    block.tensor_elements = terms.tensor_elements;
    block.scale_bits = terms.scale_bits;
    block.grad_cnt = terms.grad_cnt;
    block.format = terms.format;
    block.extended = terms.extended;
    block.expected = terms.expected;
    block.incarnation++;
    block.begin();
    generation_latest_ = std::max(generation_latest_, generation);
    if (TRIB_MUTANT(kResultsForgotten)) forget_results(block);
    if (clear_lanes) std::fill_n(lanes(block.aggr_buffer), block.grad_cnt, 0);
    return {Insert::kCreated, &block, block.incarnation, false};
  }
  void forget_results(const BlockRecord& block);
  [[nodiscard]] ResultRecord& newest(uint32_t place) {
    return results_[place * shape_.history + newest_[place]];
  }
  [[nodiscard]] Found find_result(uint32_t place, uint64_t generation, uint32_t block_id);
  [[nodiscard]] std::byte* buffer(uint32_t aggr_buffer) const {
    return buffers_ + size_t{aggr_buffer} * shape_.buffer_bytes;
  }
  static void free_record(BlockRecord& block) {
    TRIB_ASSERT(block.phase != BlockPhase::kFree);
    block.phase = BlockPhase::kFree;
    block.closing = true;  // Refuses threads that looked up this incarnation.
  }

  WindowShape shape_;
  uint32_t core_shift_ = 0;          ///< log2 of the shard count: the bits that select the core.
  uint32_t place_in_run_mask_ = 0;   ///< The bits of place_count - 1 below kBlocksPerRun.
  uint32_t run_mask_ = 0;            ///< The other bits of place_count - 1.
  BlockRecord* places_ = nullptr;    ///< Shape [place_count].
  ResultRecord* results_ = nullptr;  ///< Shape [place_count][history], a ring for each place.
  uint8_t* newest_ = nullptr;        ///< Shape [place_count]: the ring's newest entry.
  std::byte* buffers_ = nullptr;  ///< Shape [buffer_count][buffer_bytes], behind seal_room_bytes.
  BufferStack free_;
  BufferStack cooling_;             ///< Released, but packets sent from them may not have left.
  uint64_t generation_latest_ = 0;  ///< 0: none seen.
  uint32_t epoch_ = 0;
  memory::HeldMemory held_;  ///< Owns the memory of the pointers above.
};

}  // namespace tributary::trio_ml
