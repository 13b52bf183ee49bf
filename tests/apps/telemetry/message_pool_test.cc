// SPDX-License-Identifier: Apache-2.0
// Method: the life of buffers by hand, then a random walk against a queue.
#include "apps/telemetry/message_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::telemetry {
namespace {

constexpr uint32_t kBytes = 64;

TEST(MessagePool, BuffersAreDistinctAndBounded) {
  std::vector<std::byte> memory(MessagePool::kCount * kBytes);
  MessagePool pool(memory);
  for (uint32_t i = 0; i < MessagePool::kCount; i++) {
    const auto [buffer, needs_release] = pool.take();
    EXPECT_EQ(buffer.data(), memory.data() + i * kBytes);
    EXPECT_EQ(buffer.size(), kBytes);
    EXPECT_FALSE(needs_release);
  }
  EXPECT_TRUE(pool.take().buffer.empty());
  EXPECT_EQ(pool.free_count(), 0U);
}

TEST(MessagePool, SentBuffersNeedARelease) {
  std::vector<std::byte> memory(MessagePool::kCount * kBytes);
  MessagePool pool(memory);
  std::vector<std::span<std::byte>> taken;
  for (uint32_t i = 0; i < MessagePool::kCount; i++) taken.push_back(pool.take().buffer);
  pool.give_back(taken[0], /*was_sent=*/true);
  pool.give_back(taken[1], /*was_sent=*/false);
  pool.give_back(taken[2], /*was_sent=*/true);
  EXPECT_TRUE(pool.take().needs_release);
  EXPECT_FALSE(pool.take().needs_release);
  pool.all_released();
  EXPECT_FALSE(pool.take().needs_release);
}

TEST(MessagePool, RandomWalkMatchesQueue) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  std::vector<std::byte> memory(MessagePool::kCount * kBytes);
  MessagePool pool(memory);
  struct Entry {
    std::byte* at;
    bool sent;
  };
  std::deque<Entry> free;
  for (uint32_t i = 0; i < MessagePool::kCount; i++) {
    free.push_back({memory.data() + i * kBytes, false});
  }
  std::vector<std::span<std::byte>> taken;
  for (uint32_t step = 0; step < 20'000; step++) {
    if (prng.chance(0.01)) {
      pool.all_released();
      for (Entry& entry : free) entry.sent = false;
    } else if (prng.chance(0.5)) {
      const auto [buffer, needs_release] = pool.take();
      ASSERT_EQ(buffer.empty(), free.empty());
      if (free.empty()) continue;
      ASSERT_EQ(buffer.data(), free.front().at);
      ASSERT_EQ(needs_release, free.front().sent);
      free.pop_front();
      taken.push_back(buffer);
    } else if (!taken.empty()) {
      std::swap(taken[prng.below(static_cast<uint32_t>(taken.size()))], taken.back());
      const bool sent = prng.chance(0.7);
      pool.give_back(taken.back(), sent);
      free.push_back({taken.back().data(), sent});
      taken.pop_back();
    }
    ASSERT_EQ(pool.free_count(), free.size());
  }
}

}  // namespace
}  // namespace tributary::telemetry
