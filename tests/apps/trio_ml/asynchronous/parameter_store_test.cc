// SPDX-License-Identifier: Apache-2.0
// Method: positions, sums and counts by hand on a store of ten parameters.
#include "apps/trio_ml/asynchronous/parameter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/byte_order.h"

namespace tributary::trio_ml {
namespace {

using ::testing::ElementsAre;
using Place = ParameterStore::Place;
using State = ParameterStore::State;
using Where = ParameterStore::Where;

/// Blocks of 4, 4 and 2 lanes.
constexpr JobConfig kJob{
    .id = 1, .sources = 2, .block_grad_max = 4, .asynchronous = true, .parameters = 10};

class Store : public ::testing::Test {
 protected:
  Store() {
    auto store = ParameterStore::create(kJob, memory_);
    EXPECT_TRUE(store.has_value());
    store_ = *std::move(store);
    store_->start(/*session=*/7, /*gradients=*/4, /*window=*/3);
  }
  Place place(uint32_t source, uint32_t block_id) {
    Place place{};
    EXPECT_EQ(store_->find(source, block_id, place), Where::kInside);
    return place;
  }
  bool push(uint32_t source, uint32_t block_id, const std::vector<int32_t>& changes,
            uint8_t flags = 0) {
    std::vector<std::byte> bytes(changes.size() * 4);
    for (size_t i = 0; i < changes.size(); i++) {
      store_be(&bytes[i * 4], static_cast<uint32_t>(changes[i]));
    }
    return store_->push(source, place(source, block_id), /*gen_id=*/5, flags, bytes);
  }
  /// Answers the source's push, and returns the value.
  std::vector<int32_t> value(uint32_t source, uint32_t block_id) {
    if (!store_->has_free_answer()) store_->free_answers();
    const Place at = place(source, block_id);
    answer_ = store_->answer(source, at);
    std::vector<int32_t> lanes(store_->lane_count(at.block));
    for (size_t i = 0; i < lanes.size(); i++) {
      lanes[i] = static_cast<int32_t>(load_be<uint32_t>(answer_.lanes + i * 4));
    }
    return lanes;
  }

  memory::SharedMemory memory_ = *memory::SharedMemory::create(
      {.sram_size_bytes = 0, .dram_size_bytes = memory_bytes(kJob, 1) + (1 << 16)});
  std::unique_ptr<ParameterStore> store_;
  ParameterStore::Answer answer_{};  ///< The last one.
};

TEST_F(Store, PositionsGoRoundTheBlocks) {
  EXPECT_EQ(store_->block_count(), 3U);
  EXPECT_EQ(store_->lane_count(0), 4U);
  EXPECT_EQ(store_->lane_count(2), 2U);
  const Place third = place(0, 2);
  EXPECT_EQ(third.block, 2U);
  EXPECT_EQ(third.push, 0U);
  const Place fourth = place(0, 3);
  EXPECT_EQ(fourth.block, 0U);
  EXPECT_EQ(fourth.push, 1U);
}

TEST_F(Store, PositionsEndAWindowBeyondTheNewest) {
  Place at{};
  EXPECT_EQ(store_->find(0, 4, at), Where::kBeyond);  // Newest 0, window 3.
  EXPECT_EQ(store_->find(0, UINT32_MAX, at), Where::kBefore);
  push(0, 3, {1, 1, 1, 1});
  EXPECT_EQ(store_->find(0, 6, at), Where::kInside);
  EXPECT_EQ(store_->find(0, 7, at), Where::kBeyond);
  EXPECT_EQ(store_->find(1, 4, at), Where::kBeyond);  // Each source has its own stream.
}

TEST_F(Store, PositionsContinueBeyond32Bits) {
  store_->start(8, 4, /*window=*/1U << 30);
  // 2^30 = 3 * 357913941 + 1; 2^31 leaves 2, 3 * 2^30 leaves 0, 2^32 - 1 = 3 * 1431655765.
  push(0, 1U << 30, {1, 1, 1, 1});
  push(0, 2U << 30, {1, 1});
  push(0, 3U << 30, {1, 1, 1, 1});
  push(0, UINT32_MAX, {1, 1, 1, 1});
  const Place at = place(0, 0);  // Position 2^32 = 3 * 1431655765 + 1.
  EXPECT_EQ(at.position, uint64_t{1} << 32);
  EXPECT_EQ(at.block, 1U);
  EXPECT_EQ(at.push, 1431655765U);
  EXPECT_EQ(store_->state_of(0, at), State::kMissing);
  push(0, 0, {1, 1, 1, 1});
  EXPECT_EQ(store_->state_of(0, place(0, 0)), State::kHeld);
  // A late copy of the packet before is recognised.
  EXPECT_EQ(place(0, UINT32_MAX).position, UINT32_MAX);
  EXPECT_EQ(place(0, UINT32_MAX).push, 1431655765U);
  EXPECT_NE(store_->state_of(0, place(0, UINT32_MAX)), State::kMissing);
}

TEST_F(Store, PushesAddUp) {
  EXPECT_TRUE(push(0, 0, {1, 2, 3, 4}));
  EXPECT_THAT(value(0, 0), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(push(1, 0, {10, 20, 30, 40}));
  EXPECT_THAT(value(1, 0), ElementsAre(11, 22, 33, 44));
  EXPECT_TRUE(push(1, 2, {-1, -2}));
  EXPECT_THAT(value(1, 2), ElementsAre(-1, -2));
  EXPECT_THAT(value(0, 0), ElementsAre(11, 22, 33, 44));  // The value of the present.
}

TEST_F(Store, StatesOfAPush) {
  EXPECT_EQ(store_->state_of(1, place(1, 0)), State::kMissing);
  EXPECT_FALSE(store_->has_initial(0));
  push(1, 0, {0, 0, 0, 0});
  EXPECT_EQ(store_->state_of(1, place(1, 0)), State::kHeld);
  EXPECT_FALSE(store_->has_initial(0));
  EXPECT_EQ(store_->held_push(1, 0)->position, 0U);
  push(0, 0, {1, 2, 3, 4});
  EXPECT_TRUE(store_->has_initial(0));
  value(1, 0);
  EXPECT_EQ(store_->state_of(1, place(1, 0)), State::kAnswered);
  EXPECT_FALSE(store_->held_push(1, 0).has_value());
  push(1, 3, {1, 1, 1, 1});
  EXPECT_EQ(store_->state_of(1, place(1, 0)), State::kPast);
}

TEST_F(Store, AnswersCountThePushesOfOthers) {
  push(0, 0, {1, 1, 1, 1});
  value(0, 0);
  push(1, 0, {1, 1, 1, 1});
  value(1, 0);
  EXPECT_EQ(answer_.pushes, 1U);  // The first answer: nothing that it knew was stale.
  push(1, 3, {1, 1, 1, 1});
  value(1, 3);
  EXPECT_EQ(answer_.pushes, 1U);
  push(1, 6, {1, 1, 1, 1});
  push(0, 3, {1, 1, 1, 1});
  value(0, 3);
  EXPECT_EQ(answer_.pushes, 4U);  // Three of source 1, and its own.
  // A repeated answer counts from the push before, too: one of source 0 came since.
  value(1, 6);
  EXPECT_EQ(answer_.pushes, 2U);
  value(1, 6);
  EXPECT_EQ(answer_.pushes, 2U);
}

TEST_F(Store, OverflowMarksTheBlockForGood) {
  EXPECT_TRUE(push(0, 0, {INT32_MAX, INT32_MIN, 5, -5}));
  EXPECT_TRUE(push(1, 0, {-1, 1, -10, 10}));
  value(1, 0);
  EXPECT_EQ(answer_.flags, 0U);
  EXPECT_FALSE(push(0, 3, {2, 0, 0, 0}));  // INT32_MAX - 1 + 2.
  EXPECT_THAT(value(0, 3), ElementsAre(INT32_MIN, INT32_MIN + 1, -5, 5));
  EXPECT_EQ(answer_.flags, wire::kFlagOverflow);
  static_cast<void>(push(1, 3, {0, 0, 0, 0}));
  value(1, 3);
  EXPECT_EQ(answer_.flags, wire::kFlagOverflow);
  push(1, 1, {1, 1, 1, 1});
  value(1, 1);
  EXPECT_EQ(answer_.flags, 0U);  // Another block.
}

TEST_F(Store, NegativeOverflowIsFound) {
  push(0, 0, {0, 0, 0, INT32_MIN});
  EXPECT_FALSE(push(1, 0, {0, 0, 0, -1}));
}

TEST_F(Store, PushThatDoesNotFitIsNotAdded) {
  push(0, 0, {1, 2, 3, 4});
  value(0, 0);
  push(1, 0, {0, 0, 0, 0});
  value(1, 0);
  push(1, 3, {9, 9, 9, 9}, wire::kFlagNotFinite);
  EXPECT_THAT(value(1, 3), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(answer_.flags, wire::kFlagNotFinite);
  EXPECT_EQ(answer_.pushes, 1U);
  push(0, 3, {1, 1, 1, 1});
  value(0, 3);
  EXPECT_EQ(answer_.flags, 0U);  // The others are not concerned,
  push(1, 6, {0, 0, 0, 0});
  value(1, 6);
  EXPECT_EQ(answer_.flags, 0U);  // nor is the source's next push.
}

TEST_F(Store, DamagedInitialValuesConcernEverybody) {
  push(1, 0, {0, 0, 0, 0});
  push(0, 0, {0, 0, 0, 0}, wire::kFlagOverflow);
  value(1, 0);
  EXPECT_EQ(answer_.flags, wire::kFlagOverflow);
}

TEST_F(Store, SessionBeginsEmpty) {
  push(0, 0, {1, 2, 3, 4});
  store_->start(8, 4, 3);
  EXPECT_EQ(store_->state_of(0, place(0, 0)), State::kMissing);
  EXPECT_FALSE(store_->has_initial(0));
  push(0, 0, {1, 1, 1, 1});
  EXPECT_THAT(value(0, 0), ElementsAre(1, 1, 1, 1));
}

// Shares by 1 : 1 of three blocks: the first has one block, the second two.
TEST_F(Store, KeepsTheBlocksOfItsShare) {
  store_->start(/*session=*/8, /*gradients=*/4, /*window=*/1, {.before = 0, .own = 1, .all = 2});
  EXPECT_EQ(store_->block_count(), 1U);
  EXPECT_EQ(store_->lane_count(0), 4U);
  push(0, 0, {1, 2, 3, 4});
  EXPECT_THAT(value(0, 0), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(place(0, 1).push, 1U);
  EXPECT_EQ(place(0, 1).block, 0U);

  store_->start(/*session=*/9, /*gradients=*/4, /*window=*/2, {.before = 1, .own = 1, .all = 2});
  EXPECT_EQ(store_->block_count(), 2U);
  EXPECT_EQ(store_->lane_count(0), 4U);
  EXPECT_EQ(store_->lane_count(1), 2U);
  push(0, 0, {5, 6, 7, 8});
  push(0, 1, {9, 10});
  EXPECT_THAT(value(0, 0), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(value(0, 1), ElementsAre(9, 10));
  EXPECT_EQ(place(0, 2).block, 0U);
  EXPECT_EQ(store_->elements(), 10U);
}

TEST_F(Store, EmptyShareTakesNoPush) {
  store_->start(/*session=*/8, /*gradients=*/4, /*window=*/1, {.before = 0, .own = 1, .all = 4});
  EXPECT_EQ(store_->block_count(), 0U);
  Place place{};
  for (const uint32_t block_id : {0U, 1U, UINT32_MAX}) {
    EXPECT_EQ(store_->find(0, block_id, place), Where::kBeyond);
  }
}

}  // namespace
}  // namespace tributary::trio_ml
