// SPDX-License-Identifier: Apache-2.0
// Method: small engines by hand, then random starts and ends against the rule written as a loop
// over all PPEs.
#include "engine/model/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

/// Takes one thread. @return nullopt if all of them work.
std::optional<TakenThreads> start_one(AvailabilityDispatch& dispatch, uint32_t thread_count) {
  if (dispatch.busy_count() == thread_count) return std::nullopt;
  TakenThreads taken;
  dispatch.start(1, taken);
  return taken;
}

PpeThread place_of(const std::optional<TakenThreads>& taken) {
  EXPECT_TRUE(taken.has_value());
  return taken ? taken->first : PpeThread{};
}

TEST(AvailabilityDispatch, SpreadsOverIdlePpesFirst) {
  AvailabilityDispatch dispatch({.ppe_count = 3, .threads_each = 2});
  const std::array<PpeThread, 6> expected{{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}}};
  for (const PpeThread& thread : expected) EXPECT_EQ(place_of(start_one(dispatch, 6)), thread);
  EXPECT_EQ(dispatch.busy_count(), 6U);
}

TEST(AvailabilityDispatch, ChoosesTheLeastLoadedFirst) {
  AvailabilityDispatch dispatch({.ppe_count = 3, .threads_each = 2});
  std::vector<TakenThreads> taken;
  for (int i = 0; i < 6; i++) taken.push_back(*start_one(dispatch, 6));
  dispatch.finish(taken[1]);  // PPE 1 thread 0.
  dispatch.finish(taken[2]);  // PPE 2 threads 0 and 1.
  dispatch.finish(taken[5]);
  EXPECT_EQ(dispatch.load(0), 2U);
  EXPECT_EQ(dispatch.load(1), 1U);
  EXPECT_EQ(dispatch.load(2), 0U);
  EXPECT_EQ(place_of(start_one(dispatch, 6)), (PpeThread{2, 0}));  // The idle PPE.
  EXPECT_EQ(place_of(start_one(dispatch, 6)), (PpeThread{1, 0}));  // Ties with 2; 0 is full.
  EXPECT_EQ(place_of(start_one(dispatch, 6)), (PpeThread{2, 1}));
  EXPECT_EQ(dispatch.busy_count(), 6U);
}

/// Returns the PPEs of a train's threads, sorted.
std::vector<uint32_t> ppes_of(const TakenThreads& taken) {
  std::vector<uint32_t> ppes;
  taken.for_each_ppe([&](uint32_t ppe) { ppes.push_back(ppe); });
  std::ranges::sort(ppes);
  return ppes;
}

TEST(AvailabilityDispatch, TrainTakesPpesInTurn) {
  AvailabilityDispatch dispatch({.ppe_count = 3, .threads_each = 2});
  TakenThreads train;
  dispatch.start(4, train);
  EXPECT_EQ(train.count, 4U);
  EXPECT_EQ(train.first, (PpeThread{0, 0}));
  EXPECT_EQ(ppes_of(train), (std::vector<uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(place_of(start_one(dispatch, 6)), (PpeThread{1, 0}));
  dispatch.finish(train);
  EXPECT_EQ(dispatch.load(0), 0U);
  EXPECT_EQ(dispatch.load(1), 1U);
  EXPECT_EQ(dispatch.busy_count(), 1U);
}

TEST(AvailabilityDispatchDeathTest, RejectsStartsWithoutThreadsAndEndsOfIdleOnes) {
  AvailabilityDispatch dispatch({.ppe_count = 2, .threads_each = 2});
  TakenThreads taken;
  EXPECT_DEATH(dispatch.start(5, taken), "threads_each");
  EXPECT_DEATH(dispatch.start(0, taken), "count > 0");
  dispatch.start(3, taken);
  EXPECT_DEATH(dispatch.start(1, taken), "empty");
  dispatch.finish(taken);
  EXPECT_DEATH(dispatch.finish(taken), "numbers_");
  EXPECT_DEATH(dispatch.finish({.first = {2, 0}, .count = 1, .groups = {{0, 4}}}), "ppe_count");
  TakenThreads other;
  dispatch.start(1, other);
  other.groups.front().ppes = 3;  // Both PPEs; one has no thread at work.
  EXPECT_DEATH(dispatch.finish(other), "borrow");
}

/// Returns the PPE that the rule in the header selects.
std::optional<uint32_t> expected_ppe(const AvailabilityDispatch& dispatch, uint32_t ppe_count,
                                     uint32_t threads_each, uint32_t after) {
  std::optional<uint32_t> best;
  for (uint32_t i = 0; i < ppe_count; i++) {
    const uint32_t ppe = (after + i) % ppe_count;
    if (dispatch.load(ppe) == threads_each) continue;
    if (!best || dispatch.load(ppe) < dispatch.load(*best)) best = ppe;
  }
  return best;
}

TEST(AvailabilityDispatch, RandomUseMatchesModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (const uint32_t ppe_count : {1U, 2U, 63U, 64U, 65U, 160U}) {
    const uint32_t threads_each = 1 + prng.below(ppe_count == 2 ? 64 : 6);
    AvailabilityDispatch dispatch({.ppe_count = ppe_count, .threads_each = threads_each});
    std::vector<TakenThreads> busy;
    uint32_t after = 0;
    for (uint32_t step = 0; step < 5'000; step++) {
      // Alternate busy and quiet phases, to reach both full and idle engines.
      if (prng.chance(step / 500 % 2 == 0 ? 0.7 : 0.3)) {
        const auto ppe = expected_ppe(dispatch, ppe_count, threads_each, after);
        const auto started = start_one(dispatch, ppe_count * threads_each);
        ASSERT_EQ(started.has_value(), ppe.has_value()) << "step " << step;
        if (!started) continue;
        ASSERT_EQ(started->first.ppe, *ppe) << "step " << step;
        ASSERT_EQ(std::ranges::count(busy, started->first, &TakenThreads::first), 0)
            << "step " << step;
        after = (*ppe + 1) % ppe_count;
        busy.push_back(*started);
      } else if (!busy.empty()) {
        const uint32_t pick = prng.below(static_cast<uint32_t>(busy.size()));
        dispatch.finish(busy[pick]);
        busy.erase(busy.begin() + pick);
      }
      ASSERT_EQ(dispatch.busy_count(), busy.size());
    }
  }
}

TEST(AvailabilityDispatch, TrainIsLikeItsPacketsOneByOne) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (const uint32_t ppe_count : {1U, 2U, 63U, 64U, 65U, 160U}) {
    constexpr uint32_t kThreads = 5;
    AvailabilityDispatch trains({.ppe_count = ppe_count, .threads_each = kThreads});
    AvailabilityDispatch packets({.ppe_count = ppe_count, .threads_each = kThreads});
    std::vector<TakenThreads> busy;
    std::vector<std::vector<TakenThreads>> busy_packets;
    for (uint32_t step = 0; step < 1'000; step++) {
      const uint32_t free = ppe_count * kThreads - trains.busy_count();
      if (free > 0 && prng.chance(0.6)) {
        TakenThreads train;
        trains.start(1 + prng.below(free), train);
        std::vector<TakenThreads>& singles = busy_packets.emplace_back();
        std::vector<uint32_t> ppes;
        for (uint32_t i = 0; i < train.count; i++) {
          singles.push_back(*start_one(packets, ppe_count * kThreads));
          ppes.push_back(singles.back().first.ppe);
        }
        ASSERT_EQ(train.first.ppe, ppes.front()) << "step " << step;
        std::ranges::sort(ppes);
        ASSERT_EQ(ppes_of(train), ppes) << "step " << step;
        busy.push_back(train);
      } else if (!busy.empty()) {
        const uint32_t pick = prng.below(static_cast<uint32_t>(busy.size()));
        trains.finish(busy[pick]);
        for (const TakenThreads& packet : busy_packets[pick]) packets.finish(packet);
        busy.erase(busy.begin() + pick);
        busy_packets.erase(busy_packets.begin() + pick);
      }
      ASSERT_EQ(trains.busy_count(), packets.busy_count());
      for (uint32_t ppe = 0; ppe < ppe_count; ppe++) {
        ASSERT_EQ(trains.load(ppe), packets.load(ppe));
      }
    }
  }
}

}  // namespace
}  // namespace tributary::engine
