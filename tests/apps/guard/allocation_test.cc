// SPDX-License-Identifier: Apache-2.0
// Method: counts every call of the global operator new while the guard processes a flood from ten
// million sources, detects it and drops it; after start there must be none.
#include <gtest/gtest.h>

#include <vector>

#include "apps/guard/app.h"
#include "tests/apps/allocation_count.h"
#include "tests/apps/guard/bed.h"
#include "traffic/generator.h"

namespace tributary::guard {
namespace {

TEST(GuardAllocation, AFloodAllocatesNothing) {
  traffic::Config traffic;
  traffic.packets = 200'000;
  traffic.background = {.flows = 1'000, .rate = 2'000, .servers = 100};
  traffic.flood = traffic::FloodConfig{
      .rate = 40'000, .start = milliseconds(100), .length = seconds(60), .sources = 10'000'000};
  auto generator = *traffic::Generator::create(traffic);
  GuardConfig config = small_config();
  config.suspects_max = 1'024;  // Far fewer than the flood's sources.
  Bed bed(config);

  const uint64_t before = testing::allocation_count();
  ASSERT_GT(before, 0U) << "the operator is not in place";
  while (const auto packet = generator.next())
    static_cast<void>(bed.send(packet->at, packet->frame));
  EXPECT_EQ(testing::allocation_count() - before, 0U);
  EXPECT_EQ(bed.count(Outcome::kDetected), 1U);
  EXPECT_GT(bed.count(Outcome::kSuspectUntracked), 10'000U);
  EXPECT_GT(bed.count(Outcome::kDroppedDestination), 20'000U);
}

}  // namespace
}  // namespace tributary::guard
