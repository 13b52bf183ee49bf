// SPDX-License-Identifier: Apache-2.0
// Method: two queues learn, find and ask, with hand-made cases in the test's own time. Then a
// random walk against a plain map. The last test has threads for ThreadSanitizer.
#include "io/frames/neighbour_table.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <thread>

#include "tests/support/seed.h"

namespace tributary::io {
namespace {

Endpoint host(uint32_t number) { return Endpoint::ipv4(0x0a000000 + number, 1); }
Hop hop(uint32_t number) {
  return {.device = number % 3, .mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(number)}};
}

const Instant kStart(seconds(100));

/// Returns the hop that `cache` finds, if any.
std::optional<Hop> found_by(NeighbourCache& cache, const Endpoint& address, Instant now = kStart) {
  const auto found = cache.find(address, now);
  return found ? std::optional(found->hop) : std::nullopt;
}

TEST(NeighbourTable, OneQueueFindsWhatAnotherLearned) {
  NeighbourTable table(8);
  NeighbourCache first(table);
  NeighbourCache second(table);
  EXPECT_EQ(found_by(second, host(1)), std::nullopt);
  first.learn(host(1), hop(1), kStart);
  EXPECT_EQ(found_by(second, host(1)), hop(1));
  first.learn(host(1), hop(2), kStart);  // A new network card.
  EXPECT_EQ(found_by(second, host(1)), hop(2));
  Endpoint other_port = host(1);
  other_port.port = 9;
  EXPECT_EQ(found_by(second, other_port), hop(2));  // The port is not part of the key.
}

TEST(NeighbourTable, RelearningAnEntryKeepsTheVersion) {
  NeighbourTable table(8);
  NeighbourCache cache(table);
  cache.learn(host(1), hop(1), kStart);
  const uint64_t version = table.version();
  cache.learn(host(1), hop(1), kStart);
  table.learn(host(1), hop(1), kStart + seconds(1));
  EXPECT_EQ(table.version(), version);
}

TEST(NeighbourTable, FullTableEvictsTheOldest) {
  NeighbourTable table(3);
  NeighbourCache cache(table);
  for (uint32_t i = 1; i <= 4; i++) cache.learn(host(i), hop(i), kStart);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(found_by(cache, host(1)), std::nullopt);
  EXPECT_EQ(found_by(cache, host(2)), hop(2));
  EXPECT_EQ(found_by(cache, host(4)), hop(4));
  // The ring starts in its middle here. After an entry is removed, the oldest must still go first.
  table.forget(host(3));
  table.forget(host(9));  // Not in the table.
  EXPECT_EQ(table.size(), 2U);
  for (uint32_t i = 5; i <= 6; i++) cache.learn(host(i), hop(i), kStart);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(found_by(cache, host(2)), std::nullopt);
  for (uint32_t i = 4; i <= 6; i++) EXPECT_EQ(found_by(cache, host(i)), hop(i));
}

TEST(NeighbourTable, PinnedNeighboursStay) {
  NeighbourTable table(2);
  NeighbourCache cache(table);
  table.learn(host(1), hop(1), kStart);
  EXPECT_TRUE(table.pin(host(1), hop(7).mac));
  const Hop pinned{.device = hop(1).device, .mac = hop(7).mac};
  EXPECT_EQ(found_by(cache, host(1)), pinned);
  // No time makes it stale, and no neighbour replaces it.
  const Instant later = kStart + kReachableFor * 10;
  EXPECT_FALSE(cache.find(host(1), later)->is_stale);
  for (uint32_t i = 2; i <= 5; i++) cache.learn(host(i), hop(i), later);
  table.forget(host(1));
  // Frames from another MAC address do not move it. Frames from its own tell its device.
  cache.learn(host(1), hop(3), later);
  EXPECT_EQ(found_by(cache, host(1), later), pinned);
  cache.learn(host(1), {.device = 2, .mac = hop(7).mac}, later);
  EXPECT_EQ(found_by(cache, host(1), later), (Hop{.device = 2, .mac = hop(7).mac}));
  table.unpin(host(1));
  EXPECT_EQ(found_by(cache, host(1), later), std::nullopt);
  table.unpin(host(1));
  table.unpin(host(4));  // Learned, not pinned.
  EXPECT_EQ(found_by(cache, host(5), later), hop(5));
}

TEST(NeighbourTable, PinnedNeighboursAreBounded) {
  NeighbourTable table(2);
  for (uint32_t i = 0; i < kPinnedMax; i++) ASSERT_TRUE(table.pin(host(i), hop(1).mac));
  EXPECT_TRUE(table.pin(host(0), hop(2).mac));
  EXPECT_FALSE(table.pin(host(kPinnedMax), hop(1).mac));
  table.unpin(host(0));
  EXPECT_TRUE(table.pin(host(kPinnedMax), hop(1).mac));
  EXPECT_EQ(table.size(), kPinnedMax);
}

TEST(NeighbourTable, SilentNeighboursBecomeStale) {
  NeighbourTable table(8);
  NeighbourCache first(table);
  NeighbourCache second(table);
  first.learn(host(1), hop(1), kStart);
  const Instant stale_at = kStart + kReachableFor;
  EXPECT_FALSE(first.find(host(1), stale_at - nanoseconds(1))->is_stale);
  EXPECT_TRUE(first.find(host(1), stale_at)->is_stale);
  EXPECT_FALSE(first.find(host(1), stale_at + nanoseconds(1))->is_stale);  // Reported already.
  EXPECT_TRUE(second.find(host(1), stale_at)->is_stale);
  EXPECT_TRUE(first.find(host(1), stale_at + kStaleReportEvery)->is_stale);
  // A packet to one queue is enough for both.
  second.learn(host(1), hop(1), stale_at + kStaleReportEvery);
  EXPECT_FALSE(first.find(host(1), stale_at + kStaleReportEvery * 2)->is_stale);
}

TEST(NeighbourTable, LearnsAnswersToOpenQuestionsOnly) {
  NeighbourTable table(8);
  EXPECT_FALSE(table.take_answer(host(1), hop(1), kStart));
  EXPECT_EQ(table.size(), 0U);
  EXPECT_TRUE(table.open_question(host(1)));
  EXPECT_FALSE(table.open_question(host(1)));  // Another queue asks.
  EXPECT_TRUE(table.take_answer(host(1), hop(1), kStart));
  EXPECT_FALSE(table.take_answer(host(1), hop(2), kStart));
  EXPECT_EQ(table.find(host(1))->hop, hop(1));
  for (uint32_t i = 0; i < kQuestionsMax; i++) EXPECT_TRUE(table.open_question(host(10 + i)));
  EXPECT_FALSE(table.open_question(host(1)));  // Exceeds the limit.
  table.close_question(host(12));
  EXPECT_TRUE(table.open_question(host(1)));
}

/// The model's knowledge of an address.
struct Model {
  Hop hop;
  Instant last_heard_at;
  std::array<Instant, 2> reported_at;  ///< When each cache reported that it is stale.
};

/// Checks whether a cache may report `known` as stale, and whether it may stay silent about it.
void expect_age(const Model& known, uint32_t which, bool is_stale, Instant now) {
  const Duration silent = now - known.last_heard_at;
  if (is_stale) {
    ASSERT_GE(silent, kReachableFor - kConfirmEvery);  // A cache need not record each packet.
  } else if (silent >= kReachableFor) {
    ASSERT_LT(now, known.reported_at[which] + kStaleReportEvery);
  }
}

TEST(NeighbourTable, RandomWalkMatchesAMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  NeighbourTable table(4096);
  std::array<NeighbourCache, 2> caches{NeighbourCache(table), NeighbourCache(table)};
  std::map<uint32_t, Model> model;
  uint32_t stale = 0;
  Instant now = kStart;
  for (uint32_t step = 0; step < 20'000; step++) {
    now = now + milliseconds(prng.below(40));
    const uint32_t number = prng.below(2000);  // More than a cache holds.
    const uint32_t which = prng.below(2);
    if (prng.chance(0.3)) {
      const Hop to = hop(prng.below(200));
      caches[which].learn(host(number), to, now);
      model[number] = {.hop = to, .last_heard_at = now, .reported_at = {}};
    } else if (prng.chance(0.05)) {
      table.forget(host(number));
      model.erase(number);
    }
    const auto found = caches[which].find(host(number), now);
    ASSERT_EQ(found.has_value(), model.contains(number)) << step;
    if (!found) continue;
    Model& known = model[number];
    ASSERT_EQ(found->hop, known.hop) << step;
    ASSERT_NO_FATAL_FAILURE(expect_age(known, which, found->is_stale, now)) << step;
    if (found->is_stale) known.reported_at[which] = now;
    stale += found->is_stale ? 1 : 0;
  }
  EXPECT_GT(stale, 100U);
}

TEST(NeighbourTable, TwoThreadsMayShareTheTable) {
  NeighbourTable table(64);
  const auto work = [&table](uint32_t of) {
    NeighbourCache cache(table);
    for (uint32_t i = 0; i < 5000; i++) {
      const Instant now = kStart + milliseconds(i);
      cache.learn(host(i % 100), hop(of), now);
      const auto found = cache.find(host((i + 50) % 100), now);
      if (found) {
        EXPECT_LT(found->hop.device, 3U);
      }
      if (table.open_question(host(i % 64))) {
        static_cast<void>(table.take_answer(host(i % 64), hop(of), now));
      }
      if (i % 7 == of) table.forget(host(i % 100));
    }
  };
  std::thread other(work, 1);
  work(2);
  other.join();
  EXPECT_LE(table.size(), 64U);
}

}  // namespace
}  // namespace tributary::io
