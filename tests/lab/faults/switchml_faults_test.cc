// SPDX-License-Identifier: Apache-2.0
// Method: hand-made plans with known outcomes, on the live core, on the modelled PFE and on the
// modelled Tofino with the published program; then many seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/faults/fault_run.h"
#include "tests/lab/faults/expect_good.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

constexpr uint32_t kWalks = 60;

FaultKinds only(std::initializer_list<FaultKind> kinds) {
  FaultKinds some;
  for (const FaultKind kind : kinds) some.add(kind);
  return some;
}

/// Three workers, four slots, tensors of sixteen blocks.
FaultPlan steady(uint64_t seed, FaultMachine machine) {
  FaultPlan plan;
  plan.seed = seed;
  plan.protocol = wire::Protocol::kSwitchml;
  plan.machine = machine;
  plan.calm_at = seconds(20);  // Longer than the work, so all of it runs under faults.
  JobPlan job;
  job.world = 3;
  job.gradients = 64;
  job.window = 4;
  job.in_flight = 2;
  job.compute_max = microseconds(500);
  job.work.assign(6 + kCalmCollectives, {.element_count = 1000});
  plan.jobs.push_back(job);
  return plan;
}

class SwitchmlMachines : public ::testing::TestWithParam<FaultMachine> {};
INSTANTIATE_TEST_SUITE_P(All, SwitchmlMachines,
                         ::testing::Values(FaultMachine::kLive, FaultMachine::kPfe,
                                           FaultMachine::kTofino),
                         [](const auto& machine) -> std::string {
                           switch (machine.param) {
                             case FaultMachine::kLive:
                               return "Live";
                             case FaultMachine::kPfe:
                               return "Pfe";
                             case FaultMachine::kTofino:
                               return "Tofino";
                           }
                           return {};
                         });

TEST_P(SwitchmlMachines, RunWithoutFaultsNeedsNoRestart) {
  const FaultResult result = run_faults(steady(1, GetParam()));
  expect_good(result);
  EXPECT_EQ(result.restarts, 0U);
  EXPECT_EQ(result.spoiled_sums + result.overtaken_stalls, 0U);
}

// On links that preserve order, the published program needs no help.
TEST_P(SwitchmlMachines, SumsAreExactUnderLossAndDuplication) {
  for (uint64_t seed = 1; seed <= 5; seed++) {
    FaultPlan plan = steady(seed, GetParam());
    plan.links.loss = 0.1;
    plan.links.duplicate = 0.1;
    const FaultResult result = run_faults(plan);
    expect_good(result);
    EXPECT_GT(result.repairs, 0U);
    EXPECT_EQ(result.restarts, 0U);
    EXPECT_EQ(result.spoiled_sums + result.overtaken_stalls, 0U);
  }
}

TEST_P(SwitchmlMachines, CrashEndsTheRunAndTheNextRunIsExact) {
  FaultPlan plan = steady(1, GetParam());
  plan.kinds.add(FaultKind::kWorkerCrash);
  plan.jobs[0].compute_max = milliseconds(50);
  plan.jobs[0].deadline = seconds(10);
  plan.incidents = {
      {.kind = FaultKind::kWorkerCrash, .at = milliseconds(60), .target = 2, .length = seconds(1)}};
  const FaultResult result = run_faults(plan, /*traced=*/true);
  expect_good(result);
  EXPECT_GE(result.restarts, 1U);
  EXPECT_THAT(result.trace, Contains(::testing::HasSubstr("rank 2 process 1 begins")));
}

/// Duplicates that arrive up to ten timeouts late.
FaultPlan overtaken(uint64_t seed, FaultMachine machine) {
  FaultPlan plan = steady(seed, machine);
  plan.links.loss = 0.05;
  plan.links.duplicate = 0.2;
  plan.links.reorder = 0.3;
  plan.links.reorder_max = milliseconds(100);
  return plan;
}

// Two sets distinguish only two uses of a slot. The published switch adds later packets to the
// wrong sum, and no end can detect it.
TEST(SwitchmlFaults, OvertakenPacketsSpoilThePublishedSwitch) {
  uint64_t spoiled_sums = 0;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    const FaultResult result = run_faults(overtaken(seed, FaultMachine::kTofino));
    expect_good(result);
    spoiled_sums += result.spoiled_sums;
  }
  EXPECT_GT(spoiled_sums, 0U);
}

// With apps/switchml they only cost time, on every machine.
TEST(SwitchmlFaults, OurProgramNeverGivesAWrongSum) {
  for (const FaultMachine machine : {FaultMachine::kLive, FaultMachine::kPfe}) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
      const FaultResult result = run_faults(overtaken(seed, machine));
      expect_good(result);
      EXPECT_EQ(result.spoiled_sums, 0U);
    }
  }
}

// Without a control plane, the workers' new ports reveal the restart.
TEST(SwitchmlFaults, ServerDetectsRestartedWorkersByTheirPorts) {
  FaultPlan plan = steady(1, FaultMachine::kLive);
  plan.configured = true;
  plan.kinds.add(FaultKind::kWorkerCrash);
  plan.jobs[0].compute_max = milliseconds(50);
  plan.jobs[0].deadline = seconds(10);
  plan.incidents = {
      {.kind = FaultKind::kWorkerCrash, .at = milliseconds(60), .target = 1, .length = seconds(1)}};
  const FaultResult result = run_faults(plan);
  expect_good(result);
  EXPECT_GE(result.restarts, 1U);
}

TEST(SwitchmlFaults, PromisesHoldUnderRandomFaults) {
  const uint64_t first = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(first));
  for (uint64_t seed = first; seed < first + kWalks && !HasFailure(); seed++) {
    SCOPED_TRACE(::testing::Message()
                 << "tributary lab faults --protocol switchml --seed " << seed << " --trace");
    expect_good(
        run_faults(draw_plan(seed, FaultKinds::all(), {.protocol = wire::Protocol::kSwitchml})));
  }
}

TEST(SwitchmlFaults, SameSeedGivesTheSameDigest) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  const FaultPlan plan =
      draw_plan(seed, FaultKinds::all(), {.protocol = wire::Protocol::kSwitchml});
  EXPECT_EQ(run_faults(plan).digest, run_faults(plan, /*traced=*/true).digest);
}

TEST(SwitchmlFaults, PlansContainOnlyFaultsThatSwitchmlDetects) {
  bool tofino = false;
  bool pfe = false;
  bool configured = false;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    const FaultPlan plan =
        draw_plan(seed, FaultKinds::all(), {.protocol = wire::Protocol::kSwitchml});
    EXPECT_FALSE(plan.kinds.has(FaultKind::kDisagreement));
    EXPECT_FALSE(plan.kinds.has(FaultKind::kMemoryRefusal));
    EXPECT_EQ(plan.parent.size(), 1U);
    ASSERT_EQ(plan.jobs.size(), 1U);
    EXPECT_GE(plan.jobs[0].world, 2U);
    EXPECT_LE(plan.jobs[0].world, 8U);
    tofino |= plan.machine == FaultMachine::kTofino;
    pfe |= plan.machine == FaultMachine::kPfe;
    configured |= plan.configured;
    EXPECT_FALSE(plan.configured && plan.machine != FaultMachine::kLive);
  }
  EXPECT_TRUE(tofino);
  EXPECT_TRUE(pfe);
  EXPECT_TRUE(configured);
  EXPECT_EQ(draw_plan(3, only({FaultKind::kLoss}), {.protocol = wire::Protocol::kSwitchml})
                .incidents.size(),
            0U);
}

}  // namespace
}  // namespace tributary::lab
