// SPDX-License-Identifier: Apache-2.0
#include "bench/chaos/fault_schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <tuple>

#include "tests/support/seed.h"

namespace tributary::chaos {
namespace {

auto fields(const Fault& fault) {
  return std::tuple(fault.kind, fault.rank, fault.delay, fault.length, fault.loss);
}

TEST(FaultSchedule, EachRoundHasEveryKindOnce) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  const auto kinds = all_fault_kinds();
  ASSERT_EQ(kinds.size(), kFaultKindCount);
  FaultSchedule schedule(seed, 3, kinds);
  for (uint32_t round = 0; round < 3; round++) {
    std::set<FaultKind> seen;
    for (uint32_t i = 0; i < kFaultKindCount; i++) {
      const Fault fault = schedule.next();
      EXPECT_TRUE(seen.insert(fault.kind).second) << to_string(fault.kind);
      EXPECT_LT(fault.rank, 3U);
      EXPECT_GT(fault.delay.count(), 0);
      EXPECT_LT(fault.length.count(), 3500) << "a paused worker must not count as gone";
      EXPECT_GT(fault.loss, 0);
      EXPECT_LT(fault.loss, 0.1);
    }
  }
}

TEST(FaultSchedule, TheSeedDeterminesIt) {
  const auto kinds = all_fault_kinds();
  FaultSchedule one(5, 4, kinds);
  FaultSchedule same(5, 4, kinds);
  FaultSchedule other(6, 4, kinds);
  bool differs = false;
  for (uint32_t i = 0; i < 20; i++) {
    const Fault fault = one.next();
    EXPECT_EQ(fields(fault), fields(same.next()));
    differs |= fields(fault) != fields(other.next());
  }
  EXPECT_TRUE(differs);
}

TEST(FaultSchedule, OnlyTheGivenKindsOccur) {
  FaultSchedule schedule(1, 2, std::array{FaultKind::kLoss});
  for (uint32_t i = 0; i < 3; i++) EXPECT_EQ(schedule.next().kind, FaultKind::kLoss);
}

TEST(FaultKinds, NamesReadBack) {
  for (const FaultKind kind : all_fault_kinds()) {
    EXPECT_EQ(parse_fault_kind(to_string(kind)), kind);
  }
  EXPECT_FALSE(parse_fault_kind("earthquake"));
}

}  // namespace
}  // namespace tributary::chaos
