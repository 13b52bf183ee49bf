// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked cases at the window's edges, then random numbers against a set.
#include "auth/replay_window.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/seed.h"

namespace tributary::auth {
namespace {

constexpr uint64_t kBits = ReplayWindow::kBits;

TEST(ReplayWindow, AcceptsEachNumberOnce) {
  ReplayWindow window;
  EXPECT_TRUE(window.accept(1));
  EXPECT_FALSE(window.accept(1));
  EXPECT_TRUE(window.accept(3));
  EXPECT_TRUE(window.accept(2));  // Overtaken.
  EXPECT_FALSE(window.accept(2));
  EXPECT_FALSE(window.accept(3));
}

TEST(ReplayWindow, RefusesZero) {
  ReplayWindow window;
  EXPECT_FALSE(window.accept(0));
}

TEST(ReplayWindow, RefusesNumbersThatAreTooOld) {
  ReplayWindow window;
  EXPECT_TRUE(window.accept(5));
  EXPECT_TRUE(window.accept(10 * kBits));
  EXPECT_FALSE(window.accept(5));
  EXPECT_FALSE(window.accept(6));  // Never seen, but nobody can tell.
  EXPECT_TRUE(window.accept(9 * kBits + 1));
  EXPECT_FALSE(window.accept(9 * kBits + 1));
}

TEST(ReplayWindow, ForgetsOldNumbersWhenItMoves) {
  ReplayWindow window;
  for (uint64_t number = 1; number <= 5 * kBits; number++) {
    ASSERT_TRUE(window.accept(number));
    ASSERT_FALSE(window.accept(number));
  }
  EXPECT_TRUE(window.accept(UINT64_MAX));  // A jump over everything.
  EXPECT_FALSE(window.accept(UINT64_MAX));
}

TEST(ReplayWindow, RandomNumbersMatchASet) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  ReplayWindow window;
  std::set<uint64_t> seen;
  uint64_t newest = 0;
  for (uint32_t step = 0; step < 200'000; step++) {
    const uint64_t around = newest + 1 + prng.below(prng.below(100) == 0 ? 3000 : 8);
    const uint64_t number = around - std::min<uint64_t>(around - 1, prng.below(2000));
    const bool is_new = !seen.contains(number);
    const bool inside = number + kBits - 64 > newest;
    const bool accepted = window.accept(number);
    if (!is_new) {
      ASSERT_FALSE(accepted) << "step " << step;
    } else if (inside) {
      ASSERT_TRUE(accepted) << "step " << step;
    }
    if (accepted) seen.insert(number);
    newest = std::max(newest, number);
  }
}

}  // namespace
}  // namespace tributary::auth
