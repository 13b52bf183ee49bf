// SPDX-License-Identifier: Apache-2.0
// Method: what two queues learn and find by hand, then a random walk against a plain map. The
// threads of the last test are for ThreadSanitizer.
#include "io/neighbour_table.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "tests/support/seed.h"

namespace tributary::io {
namespace {

Endpoint host(uint32_t number) { return Endpoint::ipv4(0x0a000000 + number, 1); }
Hop hop(uint32_t number) {
  return {.device = number % 3, .mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(number)}};
}

TEST(NeighbourTable, OneQueueFindsWhatAnotherLearned) {
  NeighbourTable table(8);
  NeighbourCache first(table);
  NeighbourCache second(table);
  EXPECT_FALSE(second.find(host(1)).has_value());
  first.learn(host(1), hop(1));
  EXPECT_EQ(second.find(host(1)), hop(1));
  first.learn(host(1), hop(2));  // A new network card.
  EXPECT_EQ(second.find(host(1)), hop(2));
  Endpoint other_port = host(1);
  other_port.port = 9;
  EXPECT_EQ(second.find(other_port), hop(2));  // A port is not an address.
}

TEST(NeighbourTable, WhatIsKnownChangesNothing) {
  NeighbourTable table(8);
  NeighbourCache cache(table);
  cache.learn(host(1), hop(1));
  const uint64_t version = table.version();
  cache.learn(host(1), hop(1));
  table.learn(host(1), hop(1));
  EXPECT_EQ(table.version(), version);
}

TEST(NeighbourTable, AFullTableForgetsTheOldest) {
  NeighbourTable table(2);
  NeighbourCache cache(table);
  for (uint32_t i = 1; i <= 3; i++) cache.learn(host(i), hop(i));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_FALSE(cache.find(host(1)).has_value());
  EXPECT_EQ(cache.find(host(2)), hop(2));
  EXPECT_EQ(cache.find(host(3)), hop(3));
}

TEST(NeighbourTable, RandomWalkMatchesAMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  NeighbourTable table(4096);
  NeighbourCache first(table);
  NeighbourCache second(table);
  std::map<uint32_t, Hop> model;
  for (uint32_t step = 0; step < 20'000; step++) {
    const uint32_t number = prng.below(3000);  // More than a cache holds.
    NeighbourCache& cache = prng.chance(0.5) ? first : second;
    if (prng.chance(0.3)) {
      const Hop to = hop(prng.below(200));
      cache.learn(host(number), to);
      model[number] = to;
    }
    const auto found = cache.find(host(number));
    ASSERT_EQ(found.has_value(), model.contains(number)) << step;
    if (found) {
      ASSERT_EQ(*found, model[number]) << step;
    }
  }
}

TEST(NeighbourTable, QueuesOnTwoThreads) {
  NeighbourTable table(64);
  const auto work = [&table](uint32_t of) {
    NeighbourCache cache(table);
    for (uint32_t i = 0; i < 5000; i++) {
      cache.learn(host(i % 100), hop(of));
      const auto found = cache.find(host((i + 50) % 100));
      if (found) {
        EXPECT_LT(found->device, 3U);
      }
    }
  };
  std::thread other(work, 1);
  work(2);
  other.join();
  EXPECT_LE(table.size(), 64U);
}

}  // namespace
}  // namespace tributary::io
