// SPDX-License-Identifier: Apache-2.0
// Method: small engines by hand, then random starts and ends against the rule written as a loop
// over all PPEs.
#include "engine/model/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::engine {
namespace {

void finish_one(AvailabilityDispatch& dispatch, PpeThread thread) {
  dispatch.finish(std::span(&thread, 1));
}

TEST(AvailabilityDispatch, SpreadsOverIdlePpesFirst) {
  AvailabilityDispatch dispatch({.ppe_count = 3, .threads_each = 2});
  const std::array<PpeThread, 6> expected{{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}}};
  for (const PpeThread& thread : expected) EXPECT_EQ(dispatch.start(), thread);
  EXPECT_EQ(dispatch.start(), std::nullopt);
  EXPECT_EQ(dispatch.busy_count(), 6U);
}

TEST(AvailabilityDispatch, ChoosesTheLeastLoadedFirst) {
  AvailabilityDispatch dispatch({.ppe_count = 3, .threads_each = 2});
  for (int i = 0; i < 6; i++) EXPECT_TRUE(dispatch.start().has_value());
  finish_one(dispatch, {1, 0});
  finish_one(dispatch, {2, 0});
  finish_one(dispatch, {2, 1});
  EXPECT_EQ(dispatch.load(0), 2U);
  EXPECT_EQ(dispatch.load(1), 1U);
  EXPECT_EQ(dispatch.load(2), 0U);
  EXPECT_EQ(dispatch.start(), (PpeThread{2, 0}));  // The idle PPE.
  EXPECT_EQ(dispatch.start(), (PpeThread{1, 0}));  // Ties with 2; 0 comes next, but is full.
  EXPECT_EQ(dispatch.start(), (PpeThread{2, 1}));
  EXPECT_EQ(dispatch.start(), std::nullopt);
}

TEST(AvailabilityDispatchDeathTest, RejectsEndingAnIdleThread) {
  AvailabilityDispatch dispatch({.ppe_count = 2, .threads_each = 2});
  EXPECT_DEATH(finish_one(dispatch, {0, 0}), "busy_");
  EXPECT_DEATH(finish_one(dispatch, {2, 0}), "ppe_count");
  EXPECT_DEATH(finish_one(dispatch, {0, 2}), "threads_each");
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
    std::vector<PpeThread> busy;
    uint32_t after = 0;
    for (uint32_t step = 0; step < 5'000; step++) {
      // Alternate busy and quiet phases, to reach both full and idle engines.
      if (prng.chance(step / 500 % 2 == 0 ? 0.7 : 0.3)) {
        const auto ppe = expected_ppe(dispatch, ppe_count, threads_each, after);
        const auto started = dispatch.start();
        ASSERT_EQ(started.has_value(), ppe.has_value()) << "step " << step;
        if (!started) continue;
        ASSERT_EQ(started->ppe, *ppe) << "step " << step;
        ASSERT_EQ(std::ranges::count(busy, *started), 0) << "step " << step;
        after = (*ppe + 1) % ppe_count;
        busy.push_back(*started);
      } else if (!busy.empty()) {
        const uint32_t pick = prng.below(static_cast<uint32_t>(busy.size()));
        finish_one(dispatch, busy[pick]);
        busy.erase(busy.begin() + pick);
      }
      ASSERT_EQ(dispatch.busy_count(), busy.size());
    }
  }
}

TEST(AvailabilityDispatch, ManyThreadsAtOnceAreLikeOneByOne) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (const uint32_t ppe_count : {1U, 2U, 63U, 64U, 65U, 160U}) {
    constexpr uint32_t kThreads = 5;
    AvailabilityDispatch many({.ppe_count = ppe_count, .threads_each = kThreads});
    AvailabilityDispatch single({.ppe_count = ppe_count, .threads_each = kThreads});
    std::vector<PpeThread> busy;
    for (uint32_t step = 0; step < 1'000; step++) {
      const uint32_t free = ppe_count * kThreads - many.busy_count();
      const uint32_t count = prng.below(free + 1);
      std::vector<PpeThread> started;
      many.start(count, started);
      for (const PpeThread& thread : started) ASSERT_EQ(single.start(), thread) << "step " << step;
      ASSERT_EQ(started.size(), count);
      busy.insert(busy.end(), started.begin(), started.end());
      // Threads end in the order of their starts, or in any order.
      for (size_t i = prng.chance(0.5) ? busy.size() : 0; i < busy.size(); i++) {
        std::swap(busy[i], busy[prng.below(static_cast<uint32_t>(busy.size()))]);
      }
      const uint32_t left = prng.below(static_cast<uint32_t>(busy.size()) + 1);
      many.finish(std::span(busy).subspan(left));
      for (size_t i = left; i < busy.size(); i++) finish_one(single, busy[i]);
      busy.resize(left);
      ASSERT_EQ(many.busy_count(), left);
      for (uint32_t ppe = 0; ppe < ppe_count; ppe++) ASSERT_EQ(many.load(ppe), single.load(ppe));
    }
  }
}

}  // namespace
}  // namespace tributary::engine
