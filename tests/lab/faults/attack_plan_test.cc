// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/attack_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "auth/gmac.h"

namespace tributary::lab {
namespace {

FaultPlan attacked(uint64_t seed, FaultKinds only = FaultKinds::all()) {
  return draw_plan(seed, only, {.attackers = true});
}

TEST(AttackPlan, DrawsEveryShape) {
  FaultKinds seen;
  std::set<auth::Mode> modes;
  uint32_t groups = 0;
  uint32_t plain = 0;
  uint32_t unequal = 0;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    const FaultPlan plan = attacked(seed);
    ASSERT_TRUE(plan.attack.has_value());
    for (const JobPlan& job : plan.jobs) {
      modes.insert(job.config.auth.mode);
      groups += job.config.group.is_set() ? 1 : 0;
      const bool modelled = plan.machine != FaultMachine::kLive;
      EXPECT_FALSE(modelled && job.config.auth.mode == auth::Mode::kFull);
    }
    plain += plan.attack->plain ? 1 : 0;
    unequal += plan.attack->servers.empty() ? 0 : 1;
    for (uint32_t i = 0; i < kFaultKindCount; i++) {
      const auto kind = static_cast<FaultKind>(i);
      if (plan.kinds.has(kind)) seen.add(kind);
      EXPECT_EQ(plan.attack->every[i] > Duration(), is_attacker(kind) && plan.kinds.has(kind));
    }
  }
  FaultKinds all = FaultKinds::all();
  all.remove(FaultKind::kListMismatch);  // Of sharded plans.
  EXPECT_EQ(seen, all);
  EXPECT_EQ(modes.size(), auth::Gmac::is_available() ? 3U : 2U);
  EXPECT_GT(groups, 20U);
  EXPECT_GT(plain, 50U);
  EXPECT_GT(unequal, 20U);
}

TEST(AttackPlan, LeavesTheRestOfThePlanUnchanged) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    const FaultPlan calm = draw_plan(seed);
    const FaultPlan with = attacked(seed);
    EXPECT_FALSE(calm.attack.has_value());
    EXPECT_EQ(calm.parent, with.parent);
    EXPECT_EQ(calm.calm_at, with.calm_at);
    EXPECT_EQ(calm.links, with.links);
    ASSERT_EQ(calm.jobs.size(), with.jobs.size());
    EXPECT_EQ(calm.jobs[0].work.size(), with.jobs[0].work.size());
    EXPECT_EQ(calm.incidents.size(), with.incidents.size());
  }
}

TEST(AttackPlan, RemovingOneAttackerKeepsTheOthers) {
  FaultKinds fewer = FaultKinds::all();
  fewer.remove(FaultKind::kForger);
  for (uint64_t seed = 1; seed <= 100; seed++) {
    const FaultPlan all = attacked(seed);
    const FaultPlan less = attacked(seed, fewer);
    FaultKinds expected = all.kinds;
    expected.remove(FaultKind::kForger);
    EXPECT_EQ(less.kinds, expected);
    EXPECT_EQ(less.attack->every[static_cast<uint32_t>(FaultKind::kReplayer)],
              all.attack->every[static_cast<uint32_t>(FaultKind::kReplayer)]);
    EXPECT_EQ(less.attack->tamper, all.attack->tamper);
    EXPECT_EQ(less.attack->plain.has_value(), all.attack->plain.has_value());
  }
}

}  // namespace
}  // namespace tributary::lab
