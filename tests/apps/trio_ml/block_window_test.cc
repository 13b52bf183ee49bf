// SPDX-License-Identifier: Apache-2.0
// Method: places and results by hand, then a random walk against a map of blocks with numbers that
// never wrap, while the window sees gen_ids of 16 bits and block_ids of 32 bits.
#include "apps/trio_ml/block_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>

#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using Kind = Found::Kind;
using Insert = BlockWindow::Insert;

memory::SharedMemory made_memory() {
  return *memory::SharedMemory::create(
      {.sram_size_bytes = 4096, .dram_size_bytes = uint64_t{64} << 20});
}

BlockName plain(uint32_t block_id, uint16_t gen_id) { return {gen_id, block_id, false}; }
BlockName extended(uint32_t block_id) { return {1, block_id, true}; }

class Window : public ::testing::Test {
 protected:
  BlockWindow make(uint32_t block_cnt_max, uint32_t history = 1, uint32_t shard_count = 1) {
    auto window = BlockWindow::create(
        {.block_cnt_max = block_cnt_max, .block_grad_max = 4, .history = history}, shard_count,
        memory_);
    EXPECT_TRUE(window.has_value());
    return *std::move(window);
  }
  /// Inserts a block that must be new.
  static BlockRecord& created(BlockWindow& window, BlockName name) {
    const auto inserted = window.insert(name, BlockTerms{}, false);
    if (inserted.status != Insert::kCreated) throw std::logic_error("the block is not new");
    return *inserted.block;
  }
  static void complete(BlockWindow& window, BlockName name) {
    window.retire(created(window, name));
    window.free_cooling();
  }
  memory::SharedMemory memory_ = made_memory();
};

TEST_F(Window, BlockGoesFromAbsentToActiveToResult) {
  BlockWindow window = make(4);
  EXPECT_EQ(window.find(plain(9, 1)).kind, Kind::kAbsent);
  BlockRecord& block = created(window, plain(9, 1));
  const Found active = window.find(plain(9, 1));
  EXPECT_EQ(active.kind, Kind::kActive);
  EXPECT_EQ(active.block, &block);
  EXPECT_EQ(active.incarnation, block.incarnation);
  EXPECT_EQ(window.place_of(block), 1U);  // 9 modulo 4.
  ResultRecord& kept = window.retire(block);
  const Found result = window.find(plain(9, 1));
  EXPECT_EQ(result.kind, Kind::kResult);
  EXPECT_EQ(result.result, &kept);
}

TEST_F(Window, SecondInsertFindsTheExistingBlock) {
  BlockWindow window = make(4);
  BlockRecord& block = created(window, plain(0, 0));
  const auto again = window.insert(plain(0, 0), BlockTerms{}, false);
  EXPECT_EQ(again.status, Insert::kExists);
  EXPECT_EQ(again.block, &block);
}

TEST_F(Window, OccupiedSlotRefusesABlockUntilTheOldOneIsAbandoned) {
  BlockWindow window = make(4);
  BlockRecord& block = created(window, plain(0, 0));
  EXPECT_EQ(window.find(plain(4, 0)).kind, Kind::kWindowExceeded);
  EXPECT_EQ(window.insert(plain(4, 0), BlockTerms{}, false).status, Insert::kRefused);
  const uint16_t incarnation = block.incarnation;
  block.block_age = kAbandonedAge;
  const auto inserted = window.insert(plain(4, 0), BlockTerms{}, false);
  EXPECT_EQ(inserted.status, Insert::kCreated);
  EXPECT_TRUE(inserted.superseded);
  EXPECT_NE(inserted.incarnation, incarnation);
  EXPECT_EQ(window.find(plain(0, 0)).kind, Kind::kPastCache);
}

TEST_F(Window, AbandonedBlockIsReplacedThoughAllBuffersAreInUse) {
  for (const BlockPhase phase : {BlockPhase::kAggregating, BlockPhase::kSentUp}) {
    BlockWindow window = make(4);
    for (uint32_t id = 0; id < 4; id++) complete(window, plain(id, 0));
    for (uint32_t id = 0; id < 4; id++) {
      BlockRecord& block = created(window, plain(id, 1));
      block.block_age = kAbandonedAge;
      block.phase = phase;
    }
    ASSERT_EQ(window.buffers_free(), 0U);
    auto inserted = window.insert(plain(0, 2), BlockTerms{}, false);
    if (phase == BlockPhase::kSentUp) {
      // Its message may be on its way out, so the block waits for another buffer.
      EXPECT_EQ(inserted.status, Insert::kNoBuffer);
      window.free_cooling();
      inserted = window.insert(plain(0, 2), BlockTerms{}, false);
    }
    EXPECT_EQ(inserted.status, Insert::kCreated);
    EXPECT_TRUE(inserted.superseded);
  }
}

TEST_F(Window, BlockWithAnAdditionInProgressIsNotReplaced) {
  BlockWindow window = make(4);
  BlockRecord& block = created(window, plain(0, 0));
  block.block_age = kAbandonedAge;
  block.admitted = 1;  // With rcvd_cnt 0: a payload is in flight into the buffer.
  EXPECT_EQ(window.find(plain(4, 0)).kind, Kind::kWindowExceeded);
}

TEST_F(Window, OldGenerationsAreStaleAndFarOnesAreFuture) {
  BlockWindow window = make(4);
  complete(window, plain(0, 10));
  EXPECT_EQ(window.find(plain(1, 9)).kind, Kind::kStaleGeneration);
  EXPECT_EQ(window.find(plain(0, 9)).kind, Kind::kStaleGeneration);
  EXPECT_EQ(window.find(plain(1, 10 + kGenerationsAheadMax)).kind, Kind::kAbsent);
  EXPECT_EQ(window.find(plain(1, 11 + kGenerationsAheadMax)).kind, Kind::kFutureGeneration);
}

TEST_F(Window, SessionBlocksIgnoreTheGeneration) {
  BlockWindow window = make(4);
  complete(window, {.gen_id = 500, .block_id = 0, .extended = true});
  EXPECT_EQ(window.find({.gen_id = 3, .block_id = 0, .extended = true}).kind, Kind::kResult);
  EXPECT_EQ(window.find({.gen_id = 3, .block_id = 1, .extended = true}).kind, Kind::kAbsent);
}

TEST_F(Window, BlockIdsWrapAround) {
  BlockWindow window = make(4);
  complete(window, extended(0xfffffffe));
  complete(window, extended(0xffffffff));
  EXPECT_EQ(window.find(extended(0)).kind, Kind::kAbsent);
  complete(window, extended(0));
  complete(window, extended(1));
  EXPECT_EQ(window.find(extended(0xfffffffe)).kind, Kind::kResult);
  complete(window, extended(2));
  EXPECT_EQ(window.find(extended(0xfffffffe)).kind, Kind::kPastCache);
}

TEST_F(Window, EvictedBufferIsFreeOnlyAfterThaw) {
  BlockWindow window = make(1);
  ASSERT_EQ(window.buffers_free(), 2U);
  window.retire(created(window, plain(0, 0)));
  window.retire(created(window, plain(1, 0)));  // Evicts block 0's result.
  EXPECT_TRUE(window.has_cooling());
  EXPECT_EQ(window.insert(plain(2, 0), BlockTerms{}, false).status, Insert::kNoBuffer);
  window.free_cooling();
  EXPECT_FALSE(window.has_cooling());
  EXPECT_EQ(window.insert(plain(2, 0), BlockTerms{}, false).status, Insert::kCreated);
}

TEST_F(Window, ResetKeepsOnlyIncarnations) {
  BlockWindow window = make(4);
  const uint32_t buffers = window.buffers_free();
  complete(window, plain(0, 9));
  BlockRecord& block = created(window, plain(1, 9));
  const uint16_t incarnation = block.incarnation;
  window.reset();
  EXPECT_EQ(window.buffers_held(), 0U);
  EXPECT_EQ(window.buffers_free(), buffers - 2);  // Their packets may not have left.
  window.free_cooling();
  EXPECT_EQ(window.buffers_free(), buffers);
  EXPECT_EQ(window.find(plain(0, 9)).kind, Kind::kAbsent);
  EXPECT_EQ(window.find(plain(0, 2)).kind, Kind::kAbsent);  // After a reset no generation is stale.
  EXPECT_EQ(block.phase, BlockPhase::kFree);
  EXPECT_NE(created(window, plain(1, 9)).incarnation, incarnation);
}

TEST_F(Window, ResetRefusesAThreadThatHasFoundABlock) {
  BlockWindow window = make(4);
  created(window, extended(0));
  const Found found = window.find(extended(0));
  const uint32_t epoch = window.epoch();
  window.reset();
  EXPECT_NE(window.epoch(), epoch);
  EXPECT_EQ(admit(*found.block, found.incarnation, 0, Instant()), Admission::kClosed);
  created(window, extended(0));
  EXPECT_EQ(admit(*found.block, found.incarnation, 0, Instant()), Admission::kClosed);
}

TEST_F(Window, ResetLeavesABlockToTheThreadsThatAddToIt) {
  BlockWindow window = make(4);
  const uint32_t buffers = window.buffers_free();
  BlockRecord& block = created(window, extended(0));
  const uint16_t incarnation = block.incarnation;
  ASSERT_EQ(admit(block, incarnation, 0, Instant()), Admission::kAdmitted);
  ASSERT_EQ(admit(block, incarnation, 1, Instant()), Admission::kAdmitted);
  window.reset();
  EXPECT_EQ(block.phase, BlockPhase::kDiscarded);
  // Its place takes no block of the next session, and the block takes no third source.
  EXPECT_EQ(window.find(extended(0)).kind, Kind::kWindowExceeded);
  EXPECT_EQ(window.insert(extended(0), BlockTerms{}, false).status, Insert::kRefused);
  EXPECT_EQ(admit(block, incarnation, 2, Instant()), Admission::kClosed);
  EXPECT_FALSE(settle(block, {}));
  window.reset();  // Another session; the second thread still adds.
  EXPECT_EQ(window.buffers_free(), buffers - 1);
  EXPECT_TRUE(settle(block, {}));
  window.reset();  // And another, before the second thread frees the block.
  EXPECT_EQ(block.phase, BlockPhase::kDiscarded);
  window.abandon(block);
  window.free_cooling();
  EXPECT_EQ(window.buffers_free(), buffers);
  EXPECT_NE(created(window, extended(0)).incarnation, incarnation);
}

TEST_F(Window, ClearedLanesAreZero) {
  BlockWindow window = make(4);
  const BlockTerms terms{.grad_cnt = 4};
  BlockRecord& first = *window.insert(plain(0, 0), terms, true).block;
  std::fill_n(window.lanes(first.aggr_buffer), 4, 77);
  window.abandon(first);
  window.free_cooling();
  BlockRecord& second = *window.insert(plain(0, 0), terms, true).block;
  EXPECT_EQ(second.aggr_buffer, 0U);  // Last in, first out: the same buffer.
  for (uint32_t i = 0; i < 4; i++) EXPECT_EQ(window.lanes(second.aggr_buffer)[i], 0);
}

TEST_F(Window, OwnersAlternateInRunsOfBlocks) {
  EXPECT_EQ(owner_of(0, 4), 0U);
  EXPECT_EQ(owner_of(127, 4), 0U);
  EXPECT_EQ(owner_of(128, 4), 1U);
  EXPECT_EQ(owner_of(511, 4), 3U);
  EXPECT_EQ(owner_of(512, 4), 0U);
  EXPECT_EQ(owner_of(0xffffffff, 4), 3U);
  EXPECT_EQ(owner_of(1000, 1), 0U);
}

TEST_F(Window, BlocksOfOneWindowNeverCollide) {
  for (const uint32_t shard_count : {1U, 2U, 4U}) {
    for (const uint32_t size : {1U, 16U, 64U, 128U, 512U}) {
      // Blocks base .. base + size - 1 are in progress at once, for any base.
      for (const uint32_t base : {0U, 1U, 40U, 63U, 64U, 100U, 0xffffffc0U, 0xfffffff0U}) {
        std::vector<BlockWindow> shards;
        for (uint32_t i = 0; i < shard_count; i++) shards.push_back(make(size, 1, shard_count));
        for (uint32_t i = 0; i < size; i++) {
          const uint32_t block_id = base + i;  // Wraps.
          BlockWindow& shard = shards[owner_of(block_id, shard_count)];
          const Kind kind = shard.find(extended(block_id)).kind;
          ASSERT_EQ(kind, Kind::kAbsent) << shard_count << " shards, window " << size << ", base "
                                         << base << ", block " << block_id;
          created(shard, extended(block_id));
        }
      }
      memory_ = made_memory();
    }
  }
}

// --- Against a model ----------------------------------------------------------------------------

/// A block's name with numbers that never wrap.
struct TrueName {
  uint64_t generation = 0;
  uint64_t block = 0;
  friend auto operator<=>(const TrueName&, const TrueName&) = default;
};

/// The simplest window: a map from place to its block and results.
class Model {
 public:
  Model(uint32_t place_count, uint32_t history, uint32_t shard_count, uint32_t buffers)
      : place_count_(place_count), history_(history), shard_count_(shard_count), free_(buffers) {}

  struct Place {
    std::optional<TrueName> active;
    bool abandoned = false;
    std::deque<TrueName> results;  ///< Newest first.
  };

  Place& place_of(TrueName name) {
    // Counts the blocks below this one that belong to its shard.
    const uint64_t runs = name.block / kBlocksPerRun / shard_count_;
    return places_[(runs * kBlocksPerRun + name.block % kBlocksPerRun) % place_count_];
  }

  Kind find(TrueName name) {
    const Place& place = place_of(name);
    if (place.active == name) return Kind::kActive;
    const auto& results = place.results;
    if (std::find(results.begin(), results.end(), name) != results.end()) return Kind::kResult;
    const bool old =
        (place.active && name < *place.active) || (!results.empty() && name < results.front());
    const bool stale = latest_ && name.generation < *latest_;
    if (old) return stale ? Kind::kStaleGeneration : Kind::kPastCache;
    if (stale) return Kind::kStaleGeneration;
    if (latest_ && name.generation > *latest_ + kGenerationsAheadMax) {
      return Kind::kFutureGeneration;
    }
    if (place.active && !place.abandoned) return Kind::kWindowExceeded;
    return Kind::kAbsent;
  }

  Insert insert(TrueName name) {
    switch (find(name)) {
      case Kind::kActive:
        return Insert::kExists;
      case Kind::kAbsent:
        break;
      default:
        return Insert::kRefused;
    }
    Place& place = place_of(name);
    if (place.active) free_++;
    if (free_ == 0) return Insert::kNoBuffer;
    place.active = name;
    place.abandoned = false;
    free_--;
    latest_ = std::max(latest_.value_or(0), name.generation);
    return Insert::kCreated;
  }
  void retire(TrueName name) {
    Place& place = place_of(name);
    place.active.reset();
    place.results.push_front(name);
    if (place.results.size() > history_) {
      place.results.pop_back();
      cooling_++;
    }
  }
  void abandon(TrueName name) {
    place_of(name).active.reset();
    free_++;
  }
  void free_cooling() { free_ += std::exchange(cooling_, 0U); }

  [[nodiscard]] std::vector<TrueName> active() const {
    std::vector<TrueName> names;
    for (const auto& [index, place] : places_) {
      if (place.active) names.push_back(*place.active);
    }
    return names;
  }
  [[nodiscard]] uint32_t free() const { return free_; }

 private:
  const uint32_t place_count_;
  const uint32_t history_;
  const uint32_t shard_count_;
  uint32_t free_;
  uint32_t cooling_ = 0;
  std::optional<uint64_t> latest_;
  std::map<uint64_t, Place> places_;
};

struct WalkCase {
  bool sessions;  ///< One stream of blocks past 2^32; else generations past 2^16.
  uint32_t window;
  uint32_t history;
  uint32_t shard_count;
};

class WindowWalk : public ::testing::TestWithParam<WalkCase> {
 protected:
  WindowWalk()
      : window_(*BlockWindow::create({.block_cnt_max = GetParam().window,
                                      .block_grad_max = 4,
                                      .history = GetParam().history},
                                     GetParam().shard_count, memory_)),
        model_(window_.place_count(), GetParam().history, GetParam().shard_count,
               window_.buffers_free()) {}

  BlockName name_of(TrueName name) const {
    return {static_cast<uint16_t>(name.generation), static_cast<uint32_t>(name.block),
            GetParam().sessions};
  }

  /// A block near the front, of shard 1 (or 0 if it is alone).
  TrueName choose(Prng& prng) {
    TrueName name{.generation = front_.generation, .block = front_.block};
    const uint32_t reach = 3 * GetParam().window * GetParam().shard_count;
    if (GetParam().sessions) {
      name.block = name.block + prng.below(reach) - reach / 2;
    } else {
      name.generation = name.generation + prng.below(16) - 5;
      name.block = prng.below(reach);
    }
    const uint64_t shard = GetParam().shard_count - 1;
    const uint64_t run = name.block / kBlocksPerRun;
    name.block += (run / (shard + 1) * (shard + 1) + shard - run) * kBlocksPerRun;
    return name;
  }

  void step(Prng& prng) {
    const TrueName name = choose(prng);
    const Found found = window_.find(name_of(name));
    ASSERT_EQ(found.kind, model_.find(name));
    check_stamp(found, name);
    switch (prng.below(8)) {
      case 0:
        window_.free_cooling();
        model_.free_cooling();
        break;
      case 1:
        end_one(prng, /*with_result=*/false);
        break;
      case 2:
      case 3:
      case 4:
        end_one(prng, /*with_result=*/true);
        break;
      default:
        insert(name, prng);
    }
    ASSERT_EQ(window_.buffers_free(), model_.free());
  }

  /// Lanes carry a stamp of their block, so that the test detects two blocks in one buffer.
  static int32_t stamp(TrueName name) {
    return static_cast<int32_t>(name.generation * 1'000'003 + name.block);
  }
  void check_stamp(const Found& found, TrueName name) {
    if (found.kind == Kind::kActive) {
      ASSERT_EQ(window_.lanes(found.block->aggr_buffer)[3], stamp(name));
      ASSERT_EQ(found.block->block_id, static_cast<uint32_t>(name.block));
    }
    if (found.kind == Kind::kResult) {
      ASSERT_EQ(window_.lanes(found.result->aggr_buffer)[3], stamp(name));
    }
  }

  void insert(TrueName name, Prng& prng) {
    const auto inserted = window_.insert(name_of(name), BlockTerms{}, false);
    ASSERT_EQ(inserted.status, model_.insert(name));
    if (inserted.status != Insert::kCreated) return;
    window_.lanes(inserted.block->aggr_buffer)[3] = stamp(name);
    front_ = std::max(front_, name);
    if (prng.chance(0.05)) {
      inserted.block->block_age = kAbandonedAge;
      model_.place_of(name).abandoned = true;
    }
  }

  void end_one(Prng& prng, bool with_result) {
    const auto names = model_.active();
    if (names.empty()) return;
    const TrueName name = names[prng.below(static_cast<uint32_t>(names.size()))];
    const Found found = window_.find(name_of(name));
    ASSERT_EQ(found.kind, Kind::kActive);
    if (with_result) {
      window_.retire(*found.block);
      model_.retire(name);
    } else {
      window_.abandon(*found.block);
      model_.abandon(name);
    }
  }

  memory::SharedMemory memory_ = made_memory();
  BlockWindow window_;
  Model model_;
  /// Starts shortly before either number wraps, with earlier blocks to choose from.
  TrueName front_ = GetParam().sessions ? TrueName{0, (uint64_t{1} << 32) - 1000}
                                        : TrueName{(uint64_t{1} << 16) - 20, 0};
};

INSTANTIATE_TEST_SUITE_P(Shapes, WindowWalk,
                         ::testing::Values(WalkCase{false, 1, 1, 1}, WalkCase{false, 8, 1, 1},
                                           WalkCase{false, 64, 3, 1}, WalkCase{false, 128, 1, 2},
                                           WalkCase{false, 256, 2, 4}, WalkCase{true, 1, 1, 1},
                                           WalkCase{true, 16, 1, 1}, WalkCase{true, 64, 4, 1},
                                           WalkCase{true, 128, 1, 2}, WalkCase{true, 512, 2, 4}),
                         [](const auto& walk) {
                           return std::string(walk.param.sessions ? "Session" : "Plain") +
                                  "Window" + std::to_string(walk.param.window) + "History" +
                                  std::to_string(walk.param.history) + "Shards" +
                                  std::to_string(walk.param.shard_count);
                         });

TEST_P(WindowWalk, RandomWalkMatchesModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const TrueName start = front_;
  for (uint32_t i = 0; i < 60'000; i++) {
    SCOPED_TRACE(i);
    step(prng);
    if (HasFatalFailure()) return;
  }
  // The numbers wrapped during the run.
  if (GetParam().sessions) {
    EXPECT_GT(front_.block, uint64_t{1} << 32);
  } else {
    EXPECT_GT(front_.generation, start.generation + 20);
  }
}

}  // namespace
}  // namespace tributary::trio_ml
