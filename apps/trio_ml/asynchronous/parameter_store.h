// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parameters of an asynchronous job: stored lanes, the pushes that they hold, and answers.
///
/// Model:   A push adds a change to a block; the answer is the block's value (BytePS §5, Fig. 11).
/// Shapes:  The parameters form blocks of `gradients` lanes, the last one with the rest. The store
///          keeps the B blocks of its share (wire/parameter_share.h), numbered from 0. A source
///          sends one stream of positions. Position p is push p / B to block p mod B.
/// Order:   block_id is p modulo 2^32; find() restores p. Each push is added once.
/// Threads: Owned by one shard, the only one of its aggregator.
/// Memory:  Taken from SharedMemory at configuration time, returned when the store ends. The first
///          push of a session to a block clears it, so no packet clears more than one block.
/// Tests:   tests/apps/trio_ml/asynchronous/parameter_store_test.cc, asynchronous_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/trio_ml/config.h"
#include "apps/trio_ml/records.h"
#include "memory/held_memory.h"
#include "memory/shared_memory.h"
#include "wire/parameter_share.h"

namespace tributary::trio_ml {

/// The sizes of a store, computed from a job's configuration.
struct ParameterShape {
  explicit ParameterShape(const JobConfig& config);
  [[nodiscard]] uint64_t memory_bytes() const;

  uint64_t elements;
  uint32_t sources;
  uint32_t blocks_max;       ///< With blocks of gradients_min() lanes.
  uint32_t answer_bytes;     ///< Room for a head, and lanes; a multiple of 64.
  uint32_t head_room_bytes;  ///< The part of answer_bytes in front of the lanes.
};

class ParameterStore {
 public:
  /// Answers that can be under way before the machine has to release them.
  static constexpr uint32_t kAnswers = 64;

  /// @param memory Must outlive the store, and must not move meanwhile.
  static Result<std::unique_ptr<ParameterStore>> create(const JobConfig& config,
                                                        memory::SharedMemory& memory);

  /// Begins a session without any push. @param gradients Lanes of a block, at least
  /// gradients_min(). @param window Most positions of a source in flight; at most the store's
  /// blocks, unless it has none. @param share The blocks of the parameters that it keeps.
  void start(uint32_t session, uint32_t gradients, uint32_t window,
             const wire::ParameterShare& share = {});

  /// Returns the parameters of all aggregators.
  [[nodiscard]] uint64_t elements() const { return shape_.elements; }
  [[nodiscard]] uint32_t block_count() const { return block_count_; }
  [[nodiscard]] uint32_t lane_count(uint32_t block) const;

  /// The place of a position in the store.
  struct Place {
    uint64_t position;
    uint64_t push;  ///< Counts the source's pushes to the block, from 0.
    uint32_t block;
  };
  enum class Where : uint8_t {
    kInside,
    kBefore,  ///< Before the first position of the session.
    kBeyond,  ///< More than a window beyond the source's newest position, or the share is empty.
  };
  /// Finds the position that a block_id of a source stands for: of the numbers that equal block_id
  /// modulo 2^32, the one nearest to the source's newest position, which is 0 at first.
  Where find(uint32_t source, uint32_t block_id, Place& place) const;

  /// The state of a source's push.
  enum class State : uint8_t {
    kMissing,
    kHeld,      ///< Added. Its answer waits for the initial values.
    kAnswered,  ///< Added, and the source's last push to this block.
    kPast,      ///< A later push of the source is added, so it has the answer to this one.
  };
  [[nodiscard]] State state_of(uint32_t source, const Place& place) const;

  /// Adds a push. @pre find() returned kInside and state_of() kMissing.
  /// @param flags kFlagOverflow, kFlagNotFinite: the values do not fit, and are not added.
  /// @param lanes Big-endian, lane_count(place.block) of them.
  /// @return false if a stored lane has overflowed: the sum wraps, and each further answer about
  ///         the block says so.
  bool push(uint32_t source, const Place& place, uint16_t gen_id, uint8_t flags,
            std::span<const std::byte> lanes);
  /// Tells whether the block has its initial values: the first push of source 0.
  [[nodiscard]] bool has_initial(uint32_t block) const;

  /// The fields of an answer's head that depend on the push.
  struct Answer {
    std::byte* lanes;  ///< The value's lanes; the bytes in front are for the head.
    uint16_t pushes;   ///< Added since the source's previous answer, its own included; saturates.
    uint16_t gen_id;
    uint8_t flags;
  };
  [[nodiscard]] bool has_free_answer() const { return answers_used_ < kAnswers; }
  /// Frees the answers. @pre Everything sent from them has left.
  void free_answers() { answers_used_ = 0; }
  /// Copies the block's value into a free answer for the source, and records the pushes in it.
  /// @pre has_free_answer(), and the source's push to the block is kHeld or kAnswered.
  [[nodiscard]] Answer answer(uint32_t source, const Place& place);
  /// Returns the place of a source's last push to the block, if its answer has waited.
  [[nodiscard]] std::optional<Place> held_push(uint32_t source, uint32_t block) const;

  /// Returns the memory of the parameters and of the pushes. No byte of it is needed between two
  /// sessions: a block's first push initialises the block's part.
  [[nodiscard]] std::array<std::span<std::byte>, 2> session_memory() const;

  // --- The terms of the session's pushes: those of the first -------------------------------------

  /// Returns them as the record that tell_mismatch() takes, with the sources that pushed on these
  /// terms. Its phase is kFree before the first push.
  [[nodiscard]] BlockRecord& terms() { return terms_; }
  [[nodiscard]] const BlockRecord& terms() const { return terms_; }

 private:
  /// The pushes of a source to a block.
  struct PushRecord {
    uint64_t pushes;          ///< One more than the number of the last one; 0: none.
    uint64_t counted;         ///< The block's pushes in the last answer to it.
    uint64_t counted_before;  ///< `counted` of the previous push.
    uint16_t gen_id;
    uint8_t flags;  ///< The reason why its values were not added.
    bool held;
  };
  struct Block {
    uint64_t pushes;  ///< Added in this session.
    uint32_t session;
    uint8_t flags;  ///< Its value is damaged.
  };

  ParameterStore(const ParameterShape& shape, memory::SharedMemory& memory)
      : shape_(shape), held_(memory) {}
  [[nodiscard]] int32_t* lanes_of(uint32_t block) const {
    return lanes_ + uint64_t{block} * gradients_;
  }
  [[nodiscard]] PushRecord& record(uint32_t source, uint32_t block) const {
    return records_[uint64_t{block} * shape_.sources + source];
  }
  [[nodiscard]] bool is_begun(uint32_t block) const {
    return blocks_[block].session == session_ && session_ != 0;
  }
  void begin(uint32_t block);

  const ParameterShape shape_;
  uint32_t session_ = 0;
  uint32_t gradients_ = 1;
  uint64_t first_block_ = 0;  ///< The share's first block, among all blocks of the parameters.
  uint32_t block_count_ = 0;
  uint32_t window_ = 1;
  uint32_t answers_used_ = 0;
  int32_t* lanes_ = nullptr;       ///< Shape [elements].
  Block* blocks_ = nullptr;        ///< Shape [blocks_max].
  PushRecord* records_ = nullptr;  ///< Shape [blocks_max][sources].
  std::byte* answers_ = nullptr;   ///< Shape [kAnswers][answer_bytes].
  std::vector<uint64_t> newest_;   ///< Shape [sources]: the highest position pushed; 0 at first.
  BlockRecord terms_;
  memory::HeldMemory held_;  ///< Owns the memory of the pointers above.
};

}  // namespace tributary::trio_ml
