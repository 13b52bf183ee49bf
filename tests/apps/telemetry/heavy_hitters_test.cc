// SPDX-License-Identifier: Apache-2.0
// Method: replacement by hand, then a random walk against a map of all flows.
#include "apps/telemetry/heavy_hitters.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/seed.h"

namespace tributary::telemetry {
namespace {

apps::FlowKey flow(uint16_t port) { return {.source_port = port}; }

TEST(HeavyHitters, KeepsTheLargest) {
  HeavyHitters hitters(2);
  hitters.note(flow(1), {1, 100});
  hitters.note(flow(2), {1, 300});
  hitters.note(flow(3), {1, 200});  // Replaces flow 1.
  hitters.note(flow(4), {1, 150});  // Too small.
  hitters.note(flow(3), {2, 400});  // Grows.
  hitters.note(flow(2), {1, 50});   // A second, smaller life.
  EXPECT_EQ(hitters.sorted(),
            (std::vector<HeavyHitters::Entry>{{flow(3), {2, 400}}, {flow(2), {1, 300}}}));
}

TEST(HeavyHitters, NoneIsAllowed) {
  HeavyHitters hitters(0);
  hitters.note(flow(1), {1, 100});
  EXPECT_TRUE(hitters.sorted().empty());
}

TEST(HeavyHitters, RandomWalkMatchesMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const uint32_t count = 1 + prng.below(20);
  HeavyHitters hitters(count);
  // Totals only grow within a life, so the k largest of all times are the k kept.
  std::map<uint16_t, uint64_t> totals;
  for (uint32_t step = 0; step < 10'000; step++) {
    const auto port = static_cast<uint16_t>(prng.below(100));
    totals[port] += uint64_t{prng.below(1000)} * 100 + port;  // Distinct totals.
    hitters.note(flow(port), {1, totals[port]});
  }
  std::vector<HeavyHitters::Entry> expected;
  for (const auto& [port, bytes] : totals) expected.push_back({flow(port), {1, bytes}});
  std::ranges::sort(expected, std::greater{}, [](const auto& entry) { return entry.total.bytes; });
  expected.resize(std::min<size_t>(count, expected.size()));
  const auto kept = hitters.sorted();
  ASSERT_EQ(kept.size(), expected.size());
  for (size_t i = 0; i < kept.size(); i++) {
    EXPECT_EQ(kept[i].total.bytes, expected[i].total.bytes) << i;
  }
}

}  // namespace
}  // namespace tributary::telemetry
