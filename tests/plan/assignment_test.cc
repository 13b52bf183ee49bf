// SPDX-License-Identifier: Apache-2.0
// Method: plans by hand, then every small n and k, whose rounded weights may cost little time.
#include "plan/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plan/byteps_equations.h"

namespace tributary::plan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// Returns machines with links of 1 byte/s.
std::vector<Machine> equal_machines(uint32_t workers, uint32_t spares) {
  std::vector<Machine> machines;
  for (uint32_t i = 0; i < workers + spares; i++) {
    machines.push_back({.name = std::to_string(i), .link_bytes_per_s = 1, .worker = i < workers});
  }
  return machines;
}

TEST(Assignment, FourWorkersAndTwoSpares) {
  const auto plan = assign(equal_machines(4, 2), {.bytes = 10});
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_THAT(plan->weights, ElementsAre(1, 1, 1, 1, 3, 3));
  EXPECT_THAT(plan->bottlenecks, Each(Bottleneck::kLink));
  EXPECT_DOUBLE_EQ(plan->predicted_s, 12);  // 24 / 20 tensors
  EXPECT_DOUBLE_EQ(plan->optimum_s, 12);
  EXPECT_DOUBLE_EQ(plan->equation_s.value(), 12);
  EXPECT_DOUBLE_EQ(plan->ring_s, 15);            // 2 * 3 / 4
  EXPECT_DOUBLE_EQ(plan->one_aggregator_s, 30);  // On a worker's machine: three peers.
}

// In a ring every worker adds three quarters of the tensor, whose links carry one and a half.
TEST(Assignment, RingHasTheSameLimitsOfCpus) {
  auto machines = equal_machines(4, 0);
  for (Machine& machine : machines) machine.sum_bytes_per_s = 0.1;
  EXPECT_DOUBLE_EQ(assign(machines, {.bytes = 10})->ring_s, 75);
  for (Machine& machine : machines) machine.sum_bytes_per_s = 0.75;
  EXPECT_DOUBLE_EQ(assign(machines, {.bytes = 10})->ring_s, 15);
}

TEST(Assignment, EquationNeedsEqualMachines) {
  auto machines = equal_machines(4, 2);
  machines[5].link_bytes_per_s = 2;
  EXPECT_FALSE(assign(machines, {.bytes = 1})->equation_s.has_value());
  machines = equal_machines(4, 2);
  machines[0].sum_bytes_per_s = 100;
  EXPECT_FALSE(assign(machines, {.bytes = 1})->equation_s.has_value());
  machines = equal_machines(4, 2);
  machines[0].aggregator = false;
  EXPECT_FALSE(assign(machines, {.bytes = 1})->equation_s.has_value());
  EXPECT_FALSE(assign(equal_machines(1, 1), {.bytes = 1})->equation_s.has_value());
}

TEST(Assignment, SlowestPartIsTheBottleneck) {
  auto machines = equal_machines(2, 1);
  machines[0].aggregator = machines[1].aggregator = false;
  machines[2].link_bytes_per_s = 100;
  auto plan = assign(machines, {.bytes = 1});
  EXPECT_THAT(plan->bottlenecks,
              ElementsAre(Bottleneck::kLink, Bottleneck::kLink, Bottleneck::kNone));
  machines[2].sum_bytes_per_s = 1;
  plan = assign(machines, {.bytes = 1});
  EXPECT_DOUBLE_EQ(plan->predicted_s, 2);
  EXPECT_THAT(plan->bottlenecks,
              ElementsAre(Bottleneck::kNone, Bottleneck::kNone, Bottleneck::kCpu));
  EXPECT_STREQ(to_string(plan->bottlenecks[2]), "cpu");
}

TEST(Assignment, LoneWorkerTakesNoTime) {
  const auto plan = assign(equal_machines(1, 0), {.bytes = 1});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->predicted_s, 0);
  EXPECT_THAT(plan->bottlenecks, ElementsAre(Bottleneck::kNone));
}

TEST(Assignment, RefusalsOfMachinesArePassedOn) {
  EXPECT_TRUE(assign({}, {.bytes = 1}).error().text.starts_with("no machine runs a worker"));
}

TEST(Assignment, RoundedWeightsCostLittle) {
  for (uint32_t n = 2; n <= 16; n++) {
    for (uint32_t k = 0; k <= n + 2; k++) {
      const auto plan = assign(equal_machines(n, k), {.bytes = 1});
      ASSERT_TRUE(plan);
      ASSERT_NEAR(plan->equation_s.value(), plan->optimum_s, 1e-9) << n << ", " << k;
      ASSERT_LE(plan->predicted_s, plan->optimum_s * 1.002) << n << ", " << k;
      ASSERT_GE(plan->predicted_s, plan->optimum_s * 0.999999) << n << ", " << k;
    }
  }
}

// A share of about kShareErrorMax may be rounded to twice its size.
TEST(Assignment, RoundedWeightsOfASlowMachineCostLittle) {
  for (const uint32_t n : {2U, 4U, 8U, 32U}) {
    for (const uint32_t k : {0U, 2U}) {
      const auto without = assign(equal_machines(n, k), {.bytes = 1});
      ASSERT_TRUE(without);
      for (const double rate : {1.0 / 50, 1.0 / 100, 1.0 / 500}) {
        for (const bool slow_link : {true, false}) {
          SCOPED_TRACE(::testing::Message() << n << ", " << k << ", " << rate << ", " << slow_link);
          auto machines = equal_machines(n, k + 1);
          (slow_link ? machines.back().link_bytes_per_s : machines.back().sum_bytes_per_s) = rate;
          const auto plan = assign(machines, {.bytes = 1});
          ASSERT_TRUE(plan);
          EXPECT_LE(plan->predicted_s, plan->optimum_s * 1.01);
          EXPECT_LE(plan->predicted_s, without->predicted_s * 1.002);
        }
      }
    }
  }
}

// Four workers' CPUs add a 10,000th of a link. The two spare machines take two tensors each.
TEST(Assignment, MachineMayGetNoShareRatherThanASlowOne) {
  auto machines = equal_machines(4, 2);
  for (uint32_t i = 0; i < 4; i++) machines[i].sum_bytes_per_s = 1e-4;
  const auto plan = assign(machines, {.bytes = 1});
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->weights, ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_DOUBLE_EQ(plan->predicted_s, 2);
}

}  // namespace
}  // namespace tributary::plan
